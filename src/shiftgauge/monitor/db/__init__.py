"""The database: tables, transactions, the job queue, stored rows, and reading and changing models and windows."""
