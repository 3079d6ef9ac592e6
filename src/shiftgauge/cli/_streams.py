"""The process's own stdout and stderr, made so that neither their reader nor their spelling decides the outcome."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _Unread(io.FileIO):
    """A file descriptor that goes nowhere once its reader has left, as `head` does when it has seen enough.

    The work goes on: files that were asked for are written, and the exit code is the one that was earned.

    Attributes:
        lost: why what was written is lost, a full disk say, where it is not the reader's own wish.
    """

    lost: OSError | None = None

    def write(self, data: Any, /) -> Any:
        """Write, or pretend to."""
        try:
            return super().write(data)
        except OSError as problem:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # whatever is still buffered must not fail again on the way out
            os.close(nowhere)
            if not isinstance(problem, BrokenPipeError):
                self.lost = problem
            return len(memoryview(data).cast("B"))


def settle() -> None:
    """Prepare both streams: one that is closed goes nowhere, and no name is too odd for the terminal's letters."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (kept to the end)
        elif stream is getattr(sys, f"__{name}__") and not isinstance(_raw(stream), _Unread):
            setattr(sys, name, _patient(stream))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def lost() -> OSError | None:
    """Why what was printed did not arrive, once: the command tells when its work is done."""
    try:
        sys.stdout.flush()
    except OSError as problem:  # a stream that is not ours
        return problem
    raw = _raw(sys.stdout)
    if not isinstance(raw, _Unread):
        return None
    found, raw.lost = raw.lost, None
    return found


def _raw(stream: Any) -> Any:
    return getattr(getattr(stream, "buffer", None), "raw", None)


def _patient(stream: Any) -> Any:
    try:
        stream.flush()
        raw = _Unread(stream.fileno(), "w", closefd=False)
    except (OSError, ValueError):  # no file stands behind it
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
    )
