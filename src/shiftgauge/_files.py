"""Files that are whole or absent: written beside their final name, then renamed. Everybody writes this way."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from shiftgauge.errors import FileError


@contextlib.contextmanager
def replacing(path: str | Path, suffix: str = "") -> Iterator[Path]:
    """A name to write to, which becomes `path` when the block ends well and vanishes when it does not.

    The name is random, so that threads, processes and machines that share a volume never meet; it is hidden,
    so that a folder of parts that is read meanwhile does not see it. A link is followed, and the permissions
    of a file that is replaced are kept.

    Args:
        path: where the finished file is to be.
        suffix: what the temporary name ends in, for writers that go by it.
    """
    file = Path(os.path.realpath(path))
    part = file.with_name(f".{file.name[:40]}.{uuid.uuid4().hex}.part{suffix}")
    try:
        part.touch(exist_ok=False)
        yield part
        _settle(part, file)
    except OSError as problem:
        raise FileError(f"{path}: cannot be written ({problem.strerror or problem})") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _settle(part: Path, file: Path) -> None:
    """On the disk before it has its name: a machine that stops leaves the old file or the new one."""
    with contextlib.suppress(FileNotFoundError):
        part.chmod(file.stat().st_mode & 0o7777)
    with part.open("rb+") as opened:
        os.fsync(opened.fileno())
    os.replace(part, file)


def write_text(path: str | Path, text: str) -> None:
    """Write a text as UTF-8, whole or not at all; what UTF-8 cannot spell is written out."""
    with replacing(path) as part:
        part.write_bytes(text.encode("utf-8", "backslashreplace"))


def check_writable(path: str | Path) -> Path:
    """Refuse, before any work is done, a name that nothing can be written to."""
    file = Path(path)
    try:
        if file.is_dir():
            raise FileError(f"{path}: is a folder; wanted the name of a file")
        if not file.parent.is_dir():
            raise FileError(f"{path}: the folder {file.parent} does not exist")
        probe = Path(os.path.realpath(file)).parent / f".{uuid.uuid4().hex}.part"
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as problem:
        raise FileError(f"{path}: cannot be written ({problem.strerror or problem})") from None
    return file
