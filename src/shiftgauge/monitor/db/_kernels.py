"""Kernels of the id index: keyed hashes of texts, hashes of rows, an open-addressing table. Arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

F = TypeVar("F", bound=Callable[..., Any])
Array = npt.NDArray[Any]
# FNV's prime and splitmix64's multipliers, which mix the contents of rows.
PRIME = np.uint64(0x100000001B3)
MIX1, MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31 = np.uint64(30), np.uint64(27), np.uint64(31)
# SipHash's initial state ("somepseudorandomlygeneratedbytes") and rotations.
SIP0, SIP1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
SIP2, SIP3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
S13, S16, S17, S21 = np.uint64(13), np.uint64(16), np.uint64(17), np.uint64(21)
S32, S56, S64 = np.uint64(32), np.uint64(56), np.uint64(64)


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
def _rotated(x: Any, bits: Any) -> Any:
    return (x << bits) | (x >> (S64 - bits))


@_kernel
def _sip_round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0, v2 = v0 + v1, v2 + v3
    v1, v3 = _rotated(v1, S13) ^ v0, _rotated(v3, S16) ^ v2
    v0 = _rotated(v0, S32)
    v2, v0 = v2 + v1, v0 + v3
    v1, v3 = _rotated(v1, S17) ^ v2, _rotated(v3, S21) ^ v0
    return v0, v1, _rotated(v2, S32), v3


@_kernel
def hash_texts(offsets: Array, data: Array, k0: Any, k1: Any, out: Array) -> None:
    """out[i] = SipHash-2-4 of data[offsets[i]:offsets[i + 1]] under the key (k0, k1), never 0 or 1.

    These two mark free and dropped places of the index. Reference: Aumasson and Bernstein, SipHash: a fast
    short-input PRF, 2012.
    """
    for i in range(len(out)):
        v0, v1, v2, v3 = k0 ^ SIP0, k1 ^ SIP1, k0 ^ SIP2, k1 ^ SIP3
        size = offsets[i + 1] - offsets[i]
        for word in range(size // 8 + 1):  # the last one holds the remaining bytes and the length
            start = offsets[i] + 8 * word
            rest = min(8, offsets[i + 1] - start)
            m = np.uint64(size & 0xFF) << S56 if rest < 8 else np.uint64(0)
            for j in range(rest):
                m |= np.uint64(data[start + j]) << np.uint64(8 * j)
            v3 ^= m
            v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
            v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
            v0 ^= m
        v2 ^= np.uint64(0xFF)
        for _ in range(4):
            v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
        h = v0 ^ v1 ^ v2 ^ v3
        out[i] = h if h > np.uint64(1) else h + np.uint64(2)


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
