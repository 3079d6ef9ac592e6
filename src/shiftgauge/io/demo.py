"""The recorded predictions that ship with the package: a real network under real shifts."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np
import numpy.typing as npt

from shiftgauge.samples import Source, Target


@dataclass(frozen=True, repr=False)
class Demo:
    """A small network trained on Fashion-MNIST, and its scores on shifted test images.

    Attributes:
        source: its scores on reserved labelled images.
        targets: its scores on test images, by shift, from mild to severe, with a second network's predictions.
        labels: (n,) the test images' class names: the truth that no method sees.
    """

    source: Source
    targets: dict[str, Target]
    labels: npt.NDArray[np.str_]

    def __repr__(self) -> str:
        return f"Demo({self.source}, {len(self.targets)} targets of {len(self.labels)} rows)"


def demo_data() -> Demo:
    """Load the recorded predictions (see `scripts/make_demo_data.py` for how they were made).

    >>> demo = demo_data()
    >>> demo.source
    Source(logits, 5000 rows x 10 classes, classes=['T-shirt', 'Trouser', 'Pullover', ...])
    """
    with resources.files("shiftgauge").joinpath("data/demo.npz").open("rb") as file:
        arrays = dict(np.load(file, allow_pickle=False))
    names = arrays["classes"]
    classes = names.tolist()
    targets = {
        shift: Target(arrays[f"{shift}_logits"], classes=classes, second=names[arrays[f"{shift}_second"]])
        for shift in arrays["shifts"].tolist()
    }
    source = Source(arrays["val_logits"], names[arrays["val_labels"]], classes=classes)
    return Demo(source, targets, names[arrays["labels"]])
