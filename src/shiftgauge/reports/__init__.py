"""One self-contained page that answers how wrong the model is, how far to trust that, and why."""

from shiftgauge.reports.document import Report, report

__all__ = ["Report", "report"]
