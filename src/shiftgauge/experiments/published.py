"""The paper's own numbers, to compare with ours, and its errata.

Lu et al., "Characterizing Out-of-Distribution Error via Optimal Transport", NeurIPS 2023: table 1 (MAE),
the table of mild label shift, and the table of correlations. In percent, as printed.
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

# Our names of data sets and methods -> the paper's.
DATASETS = {
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
    "imagenet": "ImageNet",
    "living17": "Living17",
    "nonliving26": "Nonliving26",
    "entity13": "Entity13",
    "entity30": "Entity30",
    "camelyon17": "Camelyon17-WILDS",
    "rxrx1": "RxRx1-WILDS",
    "amazon": "Amazon-WILDS",
    "civilcomments": "CivilCom.-WILDS",
}
METHODS = {
    "ac": "AC",
    "doc": "DoC",
    "im": "IM",
    "gde": "GDE",
    "atc-mc": "ATC-MC",
    "atc-ne": "ATC-NE",
    "cot": "COT",
    "cott": "COTT",
    "entropy": "Entropy",
    "projnorm": "ProjNorm",
    "projnorm-short": "ProjNorm short",
    "scot": "SCOT",
}
NETWORKS = {
    f"{network}-{size}": title
    for network, title in (("resnet18", "ResNet18"), ("resnet50", "ResNet50"), ("vgg11", "VGG11"))
    for size in ("224", "cifar")
}


@cache
def _read(name: str) -> tuple[dict[str, str], ...]:
    text = files("shiftgauge.experiments").joinpath(f"published/{name}.csv").read_text()
    return tuple(csv.DictReader(text.splitlines()))


def mae(dataset: str, kind: str, method: str, table: str = "mae") -> tuple[float, float] | None:
    """(MAE, standard deviation) in percent, or None where the paper has no such entry.

    ``table`` is ``mae`` or ``mild_label_shift``.

    >>> mae("cifar10", "synthetic", "cott")
    (1.7, 0.26)
    """
    key = (DATASETS.get(dataset), kind.capitalize(), METHODS.get(method))
    for line in _read(table):
        if (line["dataset"], line["shift"], line["method"]) == key:
            return float(line["mae_percent"]), float(line["std_percent"])
    return None


@cache
def rows() -> tuple[tuple[str, str], ...]:
    """(data set, kind of shift) of every row of the paper's main table, by our names, in its order.

    >>> rows()[0], len(rows())
    (('cifar10', 'natural'), 17)
    """
    ours = {theirs: name for name, theirs in DATASETS.items()}
    return tuple(dict.fromkeys((ours[line["dataset"]], line["shift"].lower()) for line in _read("mae")))


def correlation(dataset: str, network: str, method: str) -> tuple[float, float] | None:
    """(R^2, rho) of the paper's correlation table, or None. Its single ATC is compared with both of ours.

    >>> correlation("cifar10", "resnet18-cifar", "cot")
    (0.996, 0.998)
    """
    wanted = "ATC" if method.startswith("atc") else METHODS.get(method)
    key = (DATASETS.get(dataset), NETWORKS.get(network), wanted)
    for line in _read("correlation"):
        if (line["dataset"], line["network"], line["method"]) == key:
            return float(line["r2"]), float(line["rho"])
    return None
