"""Read-only records of models, alerts, reports and metrics for the API and the pages."""
