"""What can be asked of the monitor and done to it, one noun per file: plain dataclasses out, no SQL beyond.

| noun | reads | changes |
|---|---|---|
| `models` | `list_models`, `get_model` | `put_source` |
| `windows` | `list_windows`, `get_window`, `list_revisions`, `coverage` | |
| `reports` | `get_report` | |
| `settings` | `get_settings` | `put_settings` |
| `alerts` | `list_alerts`, `list_deliveries` | |
| `requests` | `list_requests` | `request_labels` |
| `rows` | | `forget` |
| `tokens` | `list_tokens` | `create_token`, `revoke_token` |

Every function takes the `Store` first; names are those that people gave. What is not there raises a
`Problem` whose text can be shown. Times are microseconds since 1970 (`shiftgauge.monitor.spans.iso` prints them),
errors are fractions in [0, 1].
"""
