"""The client: `Monitor` logs predictions and labels. It needs neither a server nor the extra `monitor`."""

from shiftgauge.monitor.client.monitor import Monitor

__all__ = ["Monitor"]
