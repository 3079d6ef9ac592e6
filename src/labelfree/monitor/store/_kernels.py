"""Kernels of the id index: hashes of texts and of rows, and an open-addressing table. Arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

F = TypeVar("F", bound=Callable[..., Any])
Array = npt.NDArray[Any]

# FNV-1a's offset and prime; splitmix64's multipliers for the last mix.
OFFSET, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
MIX1, MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31 = np.uint64(30), np.uint64(27), np.uint64(31)


def _kernel(function: F) -> F:
    try:
        compiled: F = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # nowhere to keep the machine code
        compiled = numba.njit(nogil=True)(function)
    return compiled


@_kernel
def _mixed(h: Any) -> Any:
    h = (h ^ (h >> S30)) * MIX1
    h = (h ^ (h >> S27)) * MIX2
    return h ^ (h >> S31)


@_kernel
def hash_texts(offsets: Array, data: Array, out: Array) -> None:
    """out[i] = the hash of data[offsets[i]:offsets[i + 1]], never 0 (which marks a free place)."""
    for i in range(len(out)):
        h = OFFSET
        for j in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[j])) * PRIME
        h = _mixed(h ^ np.uint64(offsets[i + 1] - offsets[i]))
        out[i] = h if h != np.uint64(0) else np.uint64(1)


@_kernel
def mix_words(words: Array, out: Array) -> None:
    """Mix row i of (n, w) 64-bit words into out[i]."""
    for i in range(words.shape[0]):
        h = out[i]
        for j in range(words.shape[1]):
            h = _mixed(h ^ words[i, j]) + PRIME
        out[i] = h


@_kernel
def find(table: Array, keys: Array, out: Array) -> None:
    """out[i] = the place of keys[i] in the table, or -1."""
    mask = np.uint64(len(table) - 1)
    for i in range(len(keys)):
        place = keys[i] & mask
        while table[place] != np.uint64(0) and table[place] != keys[i]:
            place = (place + np.uint64(1)) & mask
        out[i] = np.int64(place) if table[place] == keys[i] else -1


@_kernel
def place(table: Array, keys: Array, out: Array) -> int:
    """Give every key a place (its old one, if it has one); return how many are new."""
    mask = np.uint64(len(table) - 1)
    new = 0
    for i in range(len(keys)):
        spot = keys[i] & mask
        while table[spot] != np.uint64(0) and table[spot] != keys[i]:
            spot = (spot + np.uint64(1)) & mask
        if table[spot] == np.uint64(0):
            table[spot] = keys[i]
            new += 1
        out[i] = np.int64(spot)
    return new
