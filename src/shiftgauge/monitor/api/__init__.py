"""The HTTP API: routes, request bodies, authentication."""
