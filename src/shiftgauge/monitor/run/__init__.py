"""The processes: the server, the worker, replays, the demo, and the export."""
