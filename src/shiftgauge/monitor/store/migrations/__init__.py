"""The way from an empty database to the present one, step by step."""
