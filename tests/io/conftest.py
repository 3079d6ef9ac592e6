"""A small table of scores that the tests of io write in every form."""

import numpy as np
import pytest

NAMES = ("x", "y", "z")


@pytest.fixture
def columns():
    """Probabilities of three classes on 40 rows, labels, decisions, a version, a time."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1, 1, 1], 40)
    return {
        **{f"prob_{name}": probs[:, j].tolist() for j, name in enumerate(NAMES)},
        "label": [NAMES[j] for j in rng.integers(0, 3, 40)],
        "prediction": [NAMES[j] for j in rng.integers(0, 3, 40)],
        "version": ["1.1", "1.10", "01", "1"] * 10,
        "time": [f"2026-03-{1 + i % 20:02d}T{i % 24:02d}:30:00Z" for i in range(40)],
    }


@pytest.fixture
def write_csv():
    """Write columns as delimited text."""

    def write(path, columns, delimiter=",", number=repr):
        import bz2
        import gzip

        cells = [
            [number(v) if isinstance(v, float) else str(v) for v in values] for values in columns.values()
        ]
        lines = [delimiter.join(columns), *(delimiter.join(row) for row in zip(*cells, strict=True))]
        data = ("\n".join(lines) + "\n").encode()
        packed = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
        path.write_bytes(packed(data))
        return path

    return write
