"""The monitor: estimates by window for every deployed model, combined with the labels that arrive later.

| package | purpose |
|---|---|
| `db` | tables, transactions, the job queue, stored rows; reads and changes of models and windows |
| `ingest` | request bodies to checked rows; the commit |
| `estimate` | estimates by window, observed errors, the adaptive range, label requests |
| `alerts` | rules, their evaluation, webhooks |
| `views` | records for the API and the pages |
| `api`, `pages` | HTTP routes; HTML |
| `run` | the processes: server, worker, replay, demo, export |
| `client` | logging from where a model runs; imports nothing of the above |

Times are microseconds since 1970 (UTC), errors are fractions in [0, 1].
"""
