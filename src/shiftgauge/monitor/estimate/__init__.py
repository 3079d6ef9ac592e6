"""Estimates by window, observed errors from labels, the adaptive range, and label requests."""
