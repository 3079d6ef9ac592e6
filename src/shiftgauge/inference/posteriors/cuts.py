"""A target cut into slices: by values of its rows, or, where they are not all in memory, by its columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge._labels import MISSING
from shiftgauge.errors import InputError
from shiftgauge.inference.columns import as_texts
from shiftgauge.methods import DEFAULT
from shiftgauge.methods.pair import Pair
from shiftgauge.methods.posterior import Belief
from shiftgauge.methods.scanned import ScanView, columns_of, numbers_of
from shiftgauge.methods.view import View
from shiftgauge.scans import Chunk
from shiftgauge.transport import Pile

Array = npt.NDArray[np.float64]

#: What else could be believed of the rows, each with its own answer; they fail differently.
OTHERS: tuple[tuple[str, dict[str, str]], ...] = (
    ("doc", {}),
    ("scot", {"marginal": "shrunk"}),
    ("label-shift", {}),
)
#: More different values than this are no slices.
MOST = 100_000


@dataclass(frozen=True)
class Cut:
    """A target cut into slices.

    Attributes:
        names: of the slices, in order.
        number: (m,) the slice of each row that is resampled (`shiftgauge.Pair.bag`).
        mass, rows, squares: (G,) the share of mass of each slice, its rows, and the sum of its rows' squared shares.
        columns: what the slices are cut by, where rows are not all in memory.
    """

    names: list[str]
    number: npt.NDArray[np.intp]
    mass: Array
    rows: npt.NDArray[np.intp]
    squares: Array
    columns: tuple[str, ...] = ()

    @staticmethod
    def of(pair: Pair, by: Any) -> Cut:
        """Cut a target by the values of its rows, or a scanned one by its columns."""
        if isinstance(pair.target, ScanView):
            return _scanned_cut(pair, pair.target, by)
        view = pair.target
        names, number = slice_numbers(by, view.n)
        mass = np.bincount(number, weights=view.mass, minlength=len(names))
        squares = np.bincount(number, weights=view.mass**2, minlength=len(names))
        rows = np.bincount(number, minlength=len(names))
        return Cut(names, number, np.asarray(mass, float), rows, np.asarray(squares, float))

    def errors(self, pair: Pair, method: str, options: dict[str, Any]) -> tuple[Array, list[Array]]:
        """(G,) the error of each slice by the method, and what else could be believed of it, where `auto` chose."""
        asked = [(method, options), *(OTHERS if method == DEFAULT else ())]
        pair.read_together(asked)
        beliefs = [pair.belief(name, **own) for name, own in asked]
        if isinstance(pair.target, ScanView):
            tally = _tally(pair.target, self.columns, beliefs)
            held = np.array([tally[name] for name in self.names])
            found = [_ratio(held[:, 3 + i], held[:, 1]) for i in range(len(beliefs))]
        else:
            found = [by_slice(pair.target, one(pair.target), self.number, len(self.names)) for one in beliefs]
        return found[0], found[1:]


class _Tally(dict[str, Array]):
    """Sums by the name of a slice, which add up."""

    def __add__(self, other: _Tally) -> _Tally:
        for name, sums in other.items():
            self[name] = self[name] + sums if name in self else sums
        if len(self) > MOST:
            raise InputError(
                f"by: more than {MOST:,} different values; wanted slices; bin times (--by COLUMN:1d), "
                "or take a coarser column"
            )
        return self


def _tally(target: ScanView, columns: tuple[str, ...], beliefs: Sequence[Belief]) -> _Tally:
    """Of each slice its rows, weight, sum of squared weights, and the weight that each belief takes for wrong."""

    def read(view: View, start: int) -> _Tally:
        names, number = slice_numbers(_values(view, columns), view.n)
        w = view.weights
        sums = [np.ones(view.n), w, w**2, *(w * view.doubt(one(view)) for one in beliefs)]
        held = np.array([np.bincount(number, one, len(names)) for one in sums]).T
        return _Tally(zip(names, held, strict=True))

    return target.fold_numbered(read, columns)


def _values(view: View, columns: tuple[str, ...]) -> Any:
    held = {name: columns_of(view)[name] for name in columns}
    return held if len(columns) > 1 else held[columns[0]]


def _scanned_cut(pair: Pair, target: ScanView, by: Any) -> Cut:
    columns = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, Sequence) else ()
    if not columns or not all(isinstance(name, str) for name in columns):
        raise InputError("by: the target is scanned; wanted the names of its columns, such as by='site'")
    tally = _tally(target, columns, ())
    names = [list(tally)[i] for i in _order(list(tally))]
    held = np.array([tally[name] for name in names])
    total = held[:, 1].sum()
    bag = pair.bag.whole
    here, number = slice_numbers(_columns_of(target, columns, numbers_of(bag)), bag.n)
    place = {name: i for i, name in enumerate(names)}
    number = np.array([place[name] for name in here], dtype=np.intp)[number]
    return Cut(names, number, held[:, 1] / total, held[:, 0].astype(np.intp), held[:, 2] / total**2, columns)


def _columns_of(target: ScanView, columns: tuple[str, ...], rows: npt.NDArray[np.intp]) -> Any:
    """The values of columns in some rows."""

    def take(chunk: Chunk, start: int) -> Pile:
        lo, hi = np.searchsorted(rows, [start, start + len(chunk)])
        return Pile((tuple(np.asarray(chunk.columns[name])[rows[lo:hi] - start] for name in columns),))

    found = dict(zip(columns, target.sample.fold(take, columns).joined(), strict=True))
    return found if len(columns) > 1 else found[columns[0]]


def by_slice(view: View, posterior: Array, number: npt.NDArray[np.intp], count: int) -> Array:
    """(G,) the mean doubt of each slice's predictions; NaN where it has no mass."""
    share = np.bincount(number, weights=view.mass, minlength=count)
    return _ratio(np.bincount(number, weights=view.mass * view.doubt(posterior), minlength=count), share)


def _ratio(total: npt.NDArray[Any], share: npt.NDArray[Any]) -> Array:
    return np.asarray(np.divide(total, share, out=np.full(len(total), np.nan), where=share > 0.0))


def slice_numbers(by: Any, n: int) -> tuple[list[str], npt.NDArray[np.intp]]:
    """The slices' names in order, and each row's number among them."""
    columns = dict(by) if isinstance(by, Mapping) else {"": by}
    if not columns:
        raise InputError("by: no columns arrived; wanted at least one, with one value per target row")
    names, number = [""], np.zeros(n, dtype=np.intp)
    for column, values in columns.items():
        own, place = _column(values, f"by {column}".rstrip(), n)
        titles = [f"{column}={name}" for name in own] if column != "" else own
        used, number = np.unique(number * len(own) + place, return_inverse=True)
        number = np.asarray(number.reshape(-1), dtype=np.intp)
        names = [", ".join(filter(None, (names[u // len(own)], titles[u % len(own)]))) for u in used.tolist()]
    return names, number


def _column(values: Any, what: str, n: int) -> tuple[list[str], npt.NDArray[np.intp]]:
    """The values of one column as texts in order, and (n,) which of them each row holds."""
    array = validation.as_array(values, what)
    if array.shape != (n,):
        raise InputError(f"{what}: arrived with shape {array.shape}; wanted one value per target row, ({n},)")
    if array.dtype.kind in "mM":  # times print as they are written
        array = array.astype(str)
    names, number = np.unique(as_texts(array), return_inverse=True)
    order = _order(names.tolist())
    return names[order].tolist(), np.asarray(np.argsort(order)[number.reshape(-1)], dtype=np.intp)


def _order(names: list[str]) -> npt.NDArray[np.intp]:
    """Where each name comes: numbers by size if all are numbers, otherwise texts; missing ones last."""
    numbers = {name: _number(name) for name in names if name != MISSING}
    texts = any(number is None for number in numbers.values())

    def key(i: int) -> tuple[bool, float, str]:
        number = numbers.get(names[i])
        return names[i] == MISSING, 0.0 if texts or number is None else number, names[i]

    return np.array(sorted(range(len(names)), key=key), dtype=np.intp)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
