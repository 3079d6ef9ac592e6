"""Rows of predictions, as they came: columns of equal length, ids and times checked, scores not yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from shiftgauge.monitor.ingest.bodies import RequestLimits, too_large
from shiftgauge.monitor.periods import HOUR, SECOND, iso
from shiftgauge.monitor.problems import LONGEST_VALUE, check_name, invalid

#: How far a row's clock may be ahead of ours.
MAX_CLOCK_SKEW = HOUR
KNOWN = ("id", "time", "version", "probs", "logits", "prediction", "weight", "segments")


@dataclass(frozen=True)
class PostedRows:
    """Rows as columns.

    Attributes:
        ids: Arrow array of n texts, none missing.
        times: (n,) microseconds since 1970.
        versions: n names.
        kind: `"logits"` or `"probs"`.
        scores: (n, K).
        classes: K names where the columns were named, else None.
        predictions: n names or indices (None where a row has none), or None.
        weights: (n,), or None.
        segments: by name, an Arrow array of n texts.
    """

    ids: Any
    times: npt.NDArray[np.int64]
    versions: Sequence[str]
    kind: str
    scores: npt.NDArray[Any]
    classes: tuple[str, ...] | None = None
    predictions: list[Any] | None = None
    weights: npt.NDArray[np.float64] | None = None
    segments: dict[str, Any] = field(default_factory=dict)


def check_ids(ids: Any, limits: RequestLimits, n: int) -> Any:
    """Ids as one Arrow array of texts; whole numbers become digits."""
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    if isinstance(ids, list):
        wrong = next((i for i, v in enumerate(ids) if not isinstance(v, str)), None)
        if wrong is not None:
            raise invalid(f"row {wrong}: id {str(ids[wrong])[:60]!r}; wanted a text in every row")
        ids = texts_array(ids, "id")
    ids = decode_dictionary(ids, "id", limits.text)
    if pa.types.is_integer(ids.type) or pa.types.is_large_string(ids.type):
        ids = ids.cast(pa.string())
    if not pa.types.is_string(ids.type):
        raise invalid(f"id: arrived as {str(ids.type)[:60]}; wanted texts")
    if ids.null_count:
        raise invalid(
            f"row {int(np.argmax(ids.is_null().to_numpy(False)))}: its id is missing; wanted a text"
        )
    lengths = compute.utf8_length(ids).to_numpy(False)
    bad = (lengths == 0) | (lengths > limits.text)
    if n and bad.any():
        row = int(np.argmax(bad))
        raise invalid(f"row {row}: an id of {lengths[row]} characters; wanted 1 to {limits.text}")
    return ids


def texts_array(values: list[Any], what: str) -> Any:
    """An Arrow array of texts; a text that is not Unicode (a lone surrogate) is refused."""
    try:
        return pa.array(values, pa.string())
    except (UnicodeEncodeError, pa.ArrowException):
        raise invalid(f"{what}: a text holds characters that are not Unicode") from None


def decode_dictionary(column: Any, name: str, longest: int) -> Any:
    """A column out of its dictionary, once no text in there is too long to be repeated."""
    if not pa.types.is_dictionary(column.type):
        return column
    words = column.dictionary
    if pa.types.is_string(words.type) or pa.types.is_large_string(words.type):
        most = compute.max(compute.utf8_length(words)).as_py() or 0
        if most > longest:
            raise invalid(f"{name[:60]}: a text of {most} characters; wanted at most {longest}")
    return column.dictionary_decode()


def check_times(times: npt.NDArray[np.int64], now: int) -> npt.NDArray[np.int64]:
    """Times from 1970 to an hour from now."""
    bad = (times > now + MAX_CLOCK_SKEW) | (times < 0)
    if bad.any():
        row = int(np.argmax(bad))
        at = iso(int(times[row])) if 0 <= times[row] < 253_402_300_800 * SECOND else f"{times[row]} us"
        wanted = "wanted times since 1970" if times[row] < 0 else f"it is {iso(now)} now: is its clock right?"
        raise invalid(
            f"row {row}: its time {at} is {'before 1970' if times[row] < 0 else 'in the future'}; {wanted}"
        )
    return times


def check_segments(segments: dict[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Segments by name; values are short texts, or missing."""
    if len(segments) > limits.segments:
        raise too_large(f"{len(segments)} segments", limits.segments)
    for name, values in segments.items():
        check_name(name, "segment")
        lengths = compute.utf8_length(values).fill_null(0).to_numpy(False)
        if len(lengths) and lengths.max() > LONGEST_VALUE:
            row = int(np.argmax(lengths))
            raise invalid(
                f"row {row}: segment {name!r} has {lengths[row]} characters; wanted at most {LONGEST_VALUE}"
            )
    return segments
