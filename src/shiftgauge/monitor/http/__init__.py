"""The calls of version 1, over HTTP: parse, ask the service, answer."""
