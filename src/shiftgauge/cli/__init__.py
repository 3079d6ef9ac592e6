"""The `shiftgauge` command: one file per command; each parses, calls the library, and prints."""

from shiftgauge.cli.app import main

__all__ = ["main"]
