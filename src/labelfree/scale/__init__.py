"""Rows of any number: where they come from, and who carries the work to them."""

from labelfree.scale.scan import scan

__all__ = ["scan"]
