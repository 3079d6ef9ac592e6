"""Machine code on disk: where it is kept, when it is stale, and what happens when the disk lets us down.

numba keeps code beside the source, or in the user's cache folder, or where NUMBA_CACHE_DIR says. It looks at the
time of one source file, although kernels are made of functions from several; trusts what it reads back; and
fails when it cannot write. Here the content of all kernel sources decides (times change when a container image
is built), what is read back must have the digest it was written with, and without a usable cache the code is
compiled for this process alone.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile


@cache
def sources() -> str:
    """The digest of every kernel's source."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


class Checked(IndexDataCacheFile):  # type: ignore[misc, unused-ignore]
    """Data files that begin with the digest of what follows: damaged machine code would end the process."""

    def _save_data(self, name: str, data: Any) -> None:
        dumped = self._dump(data)
        super()._save_data(name, (hashlib.sha256(dumped).hexdigest(), dumped))

    def _load_data(self, name: str) -> Any:
        digest, dumped = super()._load_data(name)
        if hashlib.sha256(dumped).hexdigest() != digest:
            raise ValueError("damaged")
        return pickle.loads(dumped)


class Careful(FunctionCache):  # type: ignore[misc, unused-ignore]
    """A cache that may be full, damaged or gone: then code is compiled, and kept if that is possible."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = Checked(self._cache_path, self._impl.filename_base, sources())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever a damaged file can raise
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)


def keep(compiled: Any) -> None:
    """Keep a compiled function's machine code on disk, wherever that is possible."""
    global _folder
    for _ in range(2):
        try:
            compiled._cache = Careful(compiled.py_func)
            _folder = Path(compiled._cache.cache_path)
            return
        except Exception:  # numba: "no locator available", neither beside the source nor in the user's cache
            if numba.config.CACHE_DIR or (folder := _last_resort()) is None:
                return
            numba.config.CACHE_DIR = folder


#: The folder that keeps machine code, once a kernel has found one.
_folder: Path | None = None


def _ledger() -> Path | None:
    return None if _folder is None else _folder / f"uncompiled-{sources()[:16]}"


def uncompiled() -> float:
    """Seconds that processes with this cache have spent on running kernels without compiling them."""
    ledger = _ledger()
    with suppress(OSError):
        return 0.0 if ledger is None else ledger.stat().st_size / 100.0
    return 0.0


def note_uncompiled(seconds: float) -> None:
    """Add to `uncompiled`, if the disk can be written: a byte for every hundredth of a second."""
    ledger = _ledger()
    with suppress(OSError):
        if ledger is not None:
            ledger.parent.mkdir(parents=True, exist_ok=True)
            with ledger.open("ab") as file:
                file.write(b"." * round(100 * seconds))


def _last_resort() -> str | None:
    """A folder among the temporary files that nobody else can write to: machine code is run as it is read."""
    folder = Path(tempfile.gettempdir()) / f"shiftgauge-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
        if stat.S_ISDIR(found.st_mode) and mine and os.access(folder, os.W_OK):
            return str(folder)
    return None
