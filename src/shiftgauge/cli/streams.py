"""Standard output and error that do not fail when nobody reads them, as after `| head`."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _Output(io.FileIO):
    """A file descriptor that discards everything after the first failed write.

    So the command finishes its work, writes its files and returns the same exit code, whoever reads its output.

    Attributes:
        error: the reason of the failed write, such as a full disk; None if the reader closed the pipe.
    """

    error: OSError | None = None

    def write(self, data: Any, /) -> Any:
        """Write, or discard."""
        try:
            return super().write(data)
        except OSError as problem:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            if not isinstance(problem, BrokenPipeError):
                self.error = problem
            return len(memoryview(data).cast("B"))


def protect() -> None:
    """Replace both streams: closed ones by the null device; characters outside the encoding are escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (open until the end)
        elif stream is getattr(sys, f"__{name}__"):
            stream.flush()
            buffer = io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False))
            lines = stream.line_buffering
            wrapper = io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", line_buffering=lines)
            setattr(sys, name, wrapper)


def write_error() -> OSError | None:
    """The reason why standard output was not written completely, once."""
    try:
        sys.stdout.flush()
    except OSError as problem:  # a stream of the caller
        return problem
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(raw, _Output):
        return None
    error, raw.error = raw.error, None
    return error
