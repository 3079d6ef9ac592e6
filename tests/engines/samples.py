"""Rows that tests of io, rows and engines share, and what is folded over them; workers import it too."""

import itertools

import numpy as np
import pyarrow as pa

from shiftgauge.rows import Block, run

CLASSES = ("cat", "dog", "owl")


def rows(n=5000, dtype=np.float32, seed=0):
    """Scores, and beside them weights, decisions, ids and a group."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, 3)).astype(dtype)
    decisions = scores.argmax(axis=1)
    columns = {f"logit_{name}": scores[:, j] for j, name in enumerate(CLASSES)}
    table = pa.table(
        {
            **columns,
            "prediction": [CLASSES[j] for j in decisions],
            "w": rng.uniform(0, 2, n),
            "site": [f"s{j}" for j in rng.integers(0, 4, n)],
            "row": np.arange(n),
        }
    )
    return scores, decisions, table


def fold(rows, step, columns=()):
    """The sum of a step over all blocks."""
    return run(rows.fold(step, columns=columns))


def folded():
    """A step: everything that a block carries, weighted by where it stands. A closure, as real steps are."""

    def sums(block):
        place = block.start + np.arange(len(block)) + 1.0
        out = [place @ block.scores.astype(np.float64)]
        out.append([place @ (block.decisions == j) for j in range(3)])
        out.append([place @ block.weights, np.square(block.ids, dtype=float).sum(), len(block)])
        return np.concatenate(out)

    return sums


def wanted(scores, decisions, table):
    """The same of the whole, where rows stand as they were written."""
    place = np.arange(len(scores)) + 1.0
    return np.concatenate(
        [
            place @ scores.astype(np.float64),
            [place @ (decisions == j) for j in range(3)],
            [
                place @ table["w"].to_numpy(),
                np.square(np.arange(len(scores), dtype=float)).sum(),
                len(scores),
            ],
        ]
    )


def cuts(n, rng, pieces=6):
    """Random cuts into pieces, two of them at the same place: a piece without rows."""
    inner = np.sort(rng.integers(0, n, pieces - 1))
    inner[2] = inner[1]
    return list(zip([0, *inner], [*inner, n], strict=True))


def source():
    """A labelled sample of the same classes."""
    import shiftgauge as sg

    rng = np.random.default_rng(9)
    z = 2.0 * rng.normal(size=(600, 3))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    return sg.Source(logits=z, labels=[CLASSES[j] for j in labels], classes=CLASSES)


def answers(scan):
    """The methods' answers for a scan of these rows, with the error of each site."""
    import shiftgauge as sg

    known = source()
    found = sg.compare(known, scan, ["ac", "atc-ne", "cott", "scot", "label-shift", "auto"])
    sites = sg.slices(known, scan, "site", "doc", replicates=20).slices
    return [e.error for e in found] + [s.error for s in sites]


def labelled(n=5000, dtype=np.float32, seed=0):
    """The same rows with labels."""
    scores, _, table = rows(n, dtype, seed)
    rng = np.random.default_rng(seed + 1)
    labels = (1.5 * scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return table.append_column("label", pa.array([CLASSES[j] for j in labels]))


def same_source(a, b):
    """Two sources, to the last bit."""
    assert (a.kind, a.classes, a.n, a.decided, a.notes) == (b.kind, b.classes, b.n, b.decided, b.notes)
    for name in ("scores", "predictions", "weights", "ids", "labels"):
        one, other = getattr(a, name), getattr(b, name)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)


class PartOfArrays:
    """A part that holds some rows of arrays, read in blocks."""

    def __init__(self, name, arrays, size):
        self.name, self.arrays, self.size = name, arrays, size
        self.rows = len(arrays["scores"])

    def read(self, columns=()):
        for lo in range(0, self.rows, self.size):
            held = {name: value[lo : lo + self.size] for name, value in self.arrays.items()}
            more = {name: held.pop(name) for name in ("site",) if name in held}
            yield Block(where=self.name, first=lo, columns=more, **held)


def parts_of(arrays, cuts, size):
    """Rows of arrays in parts cut there, each read in blocks of that size."""
    ends = [0, *sorted(cuts), len(arrays["scores"])]
    return [
        PartOfArrays(f"part {i}", {name: value[lo:hi] for name, value in arrays.items()}, size)
        for i, (lo, hi) in enumerate(itertools.pairwise(ends))
    ]
