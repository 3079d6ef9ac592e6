"""Read IDX files, the format of MNIST and Fashion-MNIST, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import FileError


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes; ``path`` may also exist with ``.gz`` appended."""
    path = plain_or_gzipped(path)
    try:
        raw = path.read_bytes()
        data = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except FileNotFoundError:
        raise FileError(f"{path} (or {path.name}.gz) does not exist") from None
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{path} is not a whole gzip file ({error}); download it again") from None
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != 0x08 or len(data) < 4 + 4 * data[3]:
        raise FileError(f"{path} is not an IDX file of bytes: it begins with {data[:4].hex() or 'nothing'}")
    shape = struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]])
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * data[3])
    if values.size != math.prod(shape):
        raise FileError(f"{path} promises {shape} values and holds {values.size}; download it again")
    return np.array(values.reshape(shape))


def plain_or_gzipped(path: Path) -> Path:
    """``path``, or the same with ``.gz`` where only that exists."""
    packed = path.with_name(path.name + ".gz")
    return packed if not path.exists() and packed.exists() else path
