"""Shifts made from labelled rows: what the backtest puts the methods through."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree import _door
from labelfree.calibration import log_scores, softmax, zero_floor
from labelfree.errors import InputError
from labelfree.labelshift import dirichlet_shares, resample_to
from labelfree.types import Source

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: A made target of fewer rows says nothing.
LEAST_ROWS = 60
#: The group of rows that have none.
MISSING = "missing"
#: ISO 8601, long or short: year, month, day, hour, minute, second, fraction, zone.
ISO = re.compile(
    r"(\d{4})-?(\d\d)(?:-?(\d\d)(?:[T ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?)?"
    r"\s*(Z|[+-]\d\d(?::?\d\d)?)?)?)?"
)


@dataclass(frozen=True)
class Shift:
    """One made target.

    Attributes:
        kind: the family, such as `"class proportions"`.
        strength: the setting within the family.
        rows: (m,) which rows of the pool.
        logits: (m, K) their log-scores, changed or not.
        labels: (m,) their true classes.
        predictions: (m,) the decisions that would have been taken.
    """

    kind: str
    strength: str
    rows: Indices
    logits: Array
    labels: Indices
    predictions: Indices


@dataclass(frozen=True)
class Untried:
    """A target that could not be made, and why."""

    kind: str
    strength: str
    why: str


@dataclass(frozen=True)
class Groups:
    """One column of groups: the groups' names, and (n,) the number of each row's group among them."""

    names: tuple[str, ...]
    number: Indices

    def of(self, rows: Indices) -> Groups:
        """The same groups on some of the rows."""
        return Groups(self.names, self.number[rows])

    def rows(self) -> Iterator[tuple[str, Indices]]:
        """Each group with its rows."""
        counts = np.bincount(self.number, minlength=len(self.names))
        parts = np.split(np.argsort(self.number, kind="stable"), np.cumsum(counts)[:-1])
        return zip(self.names, parts, strict=True)


def made_shifts(pool: Source, groups: Sequence[Groups], seed: int) -> Iterator[Shift | Untried]:
    """Targets of several kinds and strengths, made from labelled rows; those that cannot be made say why.

    Class proportions (Dirichlet); sub-populations (each group, and clusters in score space); rows of lower
    confidence; sharper scores; noisier scores; two confusable classes in excess.

    Sharper scores leave every decision as it was. Noisier scores move a decision that was the largest score
    to the largest noisy one; a deployed decision that was not the largest score stays, as nobody knows the
    rule behind it.
    """
    rng = np.random.default_rng(seed)
    z = log_scores(pool, slice(None), zero_floor(pool))
    z = z - z.max(axis=1, keepdims=True)
    n = pool.n

    def take(
        kind: str, strength: str, rows: Indices, change: Callable[[Array], Array] | None = None
    ) -> Shift | Untried:
        if len(rows) < LEAST_ROWS:
            return Untried(kind, strength, f"fewer than {LEAST_ROWS} rows")
        if pool.weights is not None and not pool.weights[rows].any():
            return Untried(kind, strength, "all rows weigh nothing")
        part = z[rows] if change is None else change(z[rows])
        decided = pool.predictions[rows]
        follows = decided == z[rows].argmax(axis=1)
        predictions = decided if change is None else np.where(follows, part.argmax(axis=1), decided)
        return Shift(kind, strength, rows, part, pool.labels[rows], predictions)

    half = np.sort(rng.permutation(n)[: max(LEAST_ROWS, n // 2)])
    yield take("none", "none", half)
    for alpha in (50, 10, 1):
        yield take("class proportions", f"alpha {alpha}", _proportions(pool, alpha, rng))
    for column in groups:
        for name, rows in column.rows():
            yield take("sub-population", name, rows)
    for number, rows in enumerate(_clusters(softmax(z), rng)):
        yield take("sub-population", f"cluster {number}", rows)
    confidence = softmax(z).max(axis=1)
    for power in (1, 3):
        weight = (1.01 - confidence) ** (power / 2)
        rows = np.sort(rng.choice(n, size=n // 3, replace=False, p=weight / weight.sum()))
        yield take("lower confidence", f"power {power / 2:g}", rows)
    for factor in (1.5, 2.5):
        yield take("sharper scores", f"x {factor:g}", half, _scaled(factor))
    spread = float(np.median(z.std(axis=1)))
    for level in (0.25, 0.75):
        noise = rng.normal(size=(len(half), z.shape[1])) * spread * level
        yield take("noisier scores", f"noise {level:g}", half, _moved(noise))
    pair, why = _confused(pool)
    for excess in (0.5, 0.8):
        kind, strength = "class confusion", f"share {excess:g}"
        yield take(kind, strength, _excess(pair, excess, rng)) if not why else Untried(kind, strength, why)


def _scaled(factor: float) -> Callable[[Array], Array]:
    return lambda part: part * factor


def _moved(noise: Array) -> Callable[[Array], Array]:
    return lambda part: part + noise


def _proportions(pool: Source, alpha: float, rng: np.random.Generator) -> Indices:
    q = pool.label_marginal
    for _ in range(20):
        shares = np.where(q > 0.0, np.maximum(dirichlet_shares(q, alpha, seed=rng), 0.002), 0.0)
        rows = resample_to(pool.labels, shares / shares.sum(), seed=rng)
        if len(rows) >= LEAST_ROWS:
            return rows
    return rows


def _clusters(p: Array, rng: np.random.Generator, k: int = 4, rounds: int = 15) -> list[Indices]:
    """Rows of each cluster of sqrt(p) (Hellinger geometry), by Lloyd's k-means."""
    x = np.sqrt(p)
    k = min(k, len(x))
    centre = x[rng.choice(len(x), size=k, replace=False)]
    nearest = np.zeros(len(x), dtype=np.intp)
    for _ in range(rounds):
        nearest = np.argmin(np.square(centre).sum(axis=1) - 2.0 * x @ centre.T, axis=1)
        centre = np.array(
            [x[nearest == c].mean(axis=0) if (nearest == c).any() else centre[c] for c in range(k)]
        )
    return [np.flatnonzero(nearest == c) for c in range(k)]


def _confused(pool: Source) -> tuple[npt.NDArray[np.bool_], str]:
    """(n,) the rows of the two classes most often taken for each other, or why there are none to favour."""
    k = pool.k
    mistakes = np.zeros((k, k))
    np.add.at(mistakes, (pool.labels, pool.predictions), pool.mass)
    np.fill_diagonal(mistakes, 0.0)
    inside = np.isin(pool.labels, divmod(int(np.argmax(mistakes + mistakes.T)), k))
    if len(np.unique(pool.labels)) < 3:
        return inside, "only two classes occur, so that no pair of them can be in excess"
    return inside, "" if mistakes.any() else "no class was taken for another"


def _excess(inside: npt.NDArray[np.bool_], share: float, rng: np.random.Generator) -> Indices:
    """Rows of which those inside make up the share."""
    return resample_to((~inside).astype(np.intp), np.array([share, 1.0 - share]), seed=rng)


def row_groups(groups: Any, n: int) -> list[Groups]:
    """The columns of groups: one array, a mapping from names to arrays, or a sequence of arrays.

    Rows whose group is None, NaN or empty make up the group "missing".
    """
    if groups is None:
        return []
    return [_grouped(values, n, name) for name, values in _columns(groups).items()]


def _columns(groups: Any) -> dict[str, Any]:
    if isinstance(groups, Mapping):
        columns = {str(name): values for name, values in groups.items()}
    elif isinstance(groups, list | tuple) and groups and all(np.ndim(part) for part in groups):
        columns = {f"column {number}": values for number, values in enumerate(groups)}
    else:
        columns = {"": groups}
    if not columns:
        raise InputError("groups: no columns arrived; wanted at least one, with one value per row")
    return columns


def _grouped(values: Any, n: int, name: str) -> Groups:
    array = _one_per_row(values, n, f"groups {name}".strip())
    texts = np.array([MISSING if _is_missing(v) else str(_plain(v)) for v in array.tolist()])
    found, number = np.unique(texts, return_inverse=True)
    names = tuple(f"{name}={text}" if name else f"group {text}" for text in found.tolist())
    return Groups(names, np.asarray(number.reshape(-1), dtype=np.intp))


def row_times(values: Any, n: int, what: str = "times") -> Indices:
    """(n,) the rank of each row in time: of numbers, or of ISO 8601 dates with or without a time and a zone.

    >>> row_times(["2022-01-31", "2022-01-04T12:00", "2021-12-31"], 3).tolist()
    [2, 1, 0]
    """
    array = _one_per_row(values, n, what)
    read: dict[Any, tuple[str, Any]] = {}
    rows = [_plain(v) for v in array.tolist()]
    for row, value in enumerate(rows):
        if _is_missing(value):
            raise InputError(
                f"{what}: row {row} is missing; wanted a time in every row; drop or fill such rows"
            )
        read[value] = read[value] if value in read else _time(value, row, what)
        sort, first = read[value][0], read[rows[0]][0]
        if sort != first:
            raise InputError(
                f"{what}: row {row} is {_shown(value)}, {sort}, and row 0 is {_shown(rows[0])}, {first}; "
                "wanted one sort of time; write all rows alike"
            )
    order = {time: rank for rank, time in enumerate(sorted({time for _, time in read.values()}))}
    if len(order) < 2:
        raise InputError(
            f"{what}: all {n} rows hold {_shown(rows[0])}; wanted times that differ; try another column"
        )
    return np.array([order[read[value][1]] for value in rows], dtype=np.intp)


def _time(value: Any, row: int, what: str) -> tuple[str, Any]:
    """What sort of time a value is, and the value as something that sorts."""
    if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        return "a number", value
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc)
    text = value.isoformat() if isinstance(value, datetime.date) else str(value).strip()
    for number in (int, float):
        try:
            return "a number", number(text)
        except ValueError:
            continue
    found = ISO.fullmatch(text)
    try:
        if found is not None:
            return _iso(*found.groups())
    except ValueError:  # such as a 13th month
        pass
    raise InputError(
        f"{what}: row {row} is {_shown(value)}; wanted a number or an ISO date; "
        "write dates as 2022-01-31 or 2022-01-31T12:00"
    )


def _iso(
    year: str,
    month: str,
    day: str | None,
    hour: str | None,
    minute: str | None,
    second: str | None,
    fraction: str | None,
    zone: str | None,
) -> tuple[str, Any]:
    text = f"{year}-{month}-{day or '01'}T{hour or '00'}:{minute or '00'}:{second or '00'}"
    time = int(np.datetime64(f"{text}.{(fraction or '0')[:6]}", "us").astype(np.int64))
    if zone is None:
        return "a date", time
    sign, hours, minutes = (1, "0", "0") if zone == "Z" else (int(zone[0] + "1"), zone[1:3], zone[-2:])
    minutes = minutes if len(zone) > 3 else "0"
    return "a date with a time zone", time - sign * (int(hours) * 60 + int(minutes)) * 60_000_000


def _one_per_row(values: Any, n: int, what: str) -> npt.NDArray[Any]:
    array = _door.as_array(values, what)
    if array.shape != (n,):
        raise InputError(f"{what}: arrived with shape {array.shape}; wanted one value per row, ({n},)")
    return np.datetime_as_string(array) if array.dtype.kind == "M" else array


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return True
    return isinstance(value, str) and value.strip() in ("", "nan", "NaN", "NaT")


def _plain(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, Hashable) else str(value)


def _shown(value: Any) -> str:
    return repr(str(value) if isinstance(value, datetime.date | datetime.time) else value)
