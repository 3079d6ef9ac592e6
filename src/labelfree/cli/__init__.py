"""The `labelfree` command: one file per verb; each parses, calls the library, and prints."""

from labelfree.cli.app import main

__all__ = ["main"]
