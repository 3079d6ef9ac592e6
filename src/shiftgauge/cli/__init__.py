"""The `shiftgauge` command: one file per verb; each parses, calls the library, and prints."""

from shiftgauge.cli.app import main

__all__ = ["main"]
