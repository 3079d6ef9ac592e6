"""The monitor: every model, every window, with the labels that come late.

The rooms, from the ground up: `store` (tables, batches of rows, the id index, jobs), `service` (what can be
asked and done, one noun per file), `jobs` (what the worker does), `http` (calls and limits), `pages` (what a
browser shows). `client` stands alone: it needs neither a server nor the extra `monitor`.
"""
