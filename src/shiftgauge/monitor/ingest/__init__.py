"""Predictions and labels: parsed, checked against their version, and committed many requests at a time."""
