"""What the worker does: one kind of job per file, each a function of the store and the job."""
