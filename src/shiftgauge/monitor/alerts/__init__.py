"""Alert rules, their evaluation, and messages to webhooks."""
