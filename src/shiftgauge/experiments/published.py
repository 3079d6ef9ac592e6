"""The paper's own numbers, to compare with ours, and its errata.

Lu et al., "Characterizing Out-of-Distribution Error via Optimal Transport", NeurIPS 2023: table 1 (MAE),
the table of mild label shift, and the table of correlations. In percent, as printed, under our names.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

CITATION = "Lu et al., Characterizing Out-of-Distribution Error via Optimal Transport, NeurIPS 2023"

ERRATA = (
    "Living17-Novel repeats Entity13-Novel in seven of eight columns of the paper's main table.",
    "The paper's validation split of RxRx1, printed id_text, must be id_test.",
    "The paper's correlation table does not say which ATC it means; ours shows both.",
)

NETWORKS = {
    f"{network}-{size}": title
    for network, title in (("resnet18", "ResNet18"), ("resnet50", "ResNet50"), ("vgg11", "VGG11"))
    for size in ("224", "cifar")
}
"""The networks of the correlation table, as the paper prints them."""


@cache
def _read(name: str) -> dict[tuple[str, ...], tuple[float, float]]:
    """A table of the paper: the first three columns -> the two numbers."""
    text = files("shiftgauge.experiments").joinpath(f"published/{name}.csv").read_text()
    _, *lines = csv.reader(text.splitlines())
    return {tuple(key): (float(first), float(second)) for *key, first, second in lines}


def mae(dataset: str, kind: str, method: str, table: str = "mae") -> tuple[float, float] | None:
    """(MAE, standard deviation) in percent, or None where the paper has no such entry.

    ``table`` is ``mae`` or ``mild_label_shift``.

    >>> mae("cifar10", "synthetic", "cott")
    (1.7, 0.26)
    """
    return _read(table).get((dataset, kind, method))


def rows() -> tuple[tuple[str, str], ...]:
    """(data set, kind of shift) of every row of the paper's main table, in its order.

    >>> rows()[0], len(rows())
    (('cifar10', 'natural'), 17)
    """
    return tuple(dict.fromkeys((dataset, kind) for dataset, kind, _ in _read("mae")))


def correlation(dataset: str, network: str, method: str) -> tuple[float, float] | None:
    """(R^2, rho) of the paper's correlation table, or None. Its single ATC is compared with both of ours.

    >>> correlation("cifar10", "resnet18-cifar", "cot")
    (0.996, 0.998)
    """
    name = "atc" if method.startswith("atc") else method
    return _read("correlation").get((dataset, NETWORKS.get(network, ""), name))
