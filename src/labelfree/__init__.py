"""Estimate how wrong a classifier is on data nobody has labelled."""
