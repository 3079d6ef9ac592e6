"""Agreement-on-the-line beside `auto` and "nothing changed", where three or more models were given the same rows.

    python benchmarks/aline.py [TABLES.npz ...] [--quick] [--json FILE]

TABLES as `benchmarks/natural.py --export` writes them (three models a task); tasks with fewer models are left
out. Beside them, handwritten digits (scikit-learn's own, four models) under noise, blur, low contrast and
displacement. Printed: mean, median and worst miss in points, and how often the line was straight enough (R^2
of 0.95) that nothing warned.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _options import parser_of, save

import shiftgauge as sg

#: name of the model -> its source and target; the target's labels.
Panel = tuple[dict[str, tuple[sg.Source, sg.Target]], np.ndarray]


def tables(path: Path) -> Iterator[Panel]:
    """Every group of every task with three models or more."""
    held = np.load(path, allow_pickle=False)
    names = [name[: -len("_probs")].split("__") for name in held.files if name.endswith("_probs")]
    groups: dict[tuple[str, str], list[str]] = {}
    for task, model, group in names:
        if group != "val":
            groups.setdefault((task, group), []).append(model)
    for (task, group), models in groups.items():
        if len(models) >= 3:
            labels = held[f"{task}__{models[0]}__{group}_labels"].astype(int)
            yield (
                {
                    model: (
                        sg.Source(
                            probs=held[f"{task}__{model}__val_probs"],
                            labels=held[f"{task}__{model}__val_labels"].astype(int),
                        ),
                        sg.Target(probs=held[f"{task}__{model}__{group}_probs"]),
                    )
                    for model in models
                },
                labels,
            )


def corrupted(images: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Noise, blur, low contrast and displacement of (n, 8, 8) images with values up to 16."""
    from scipy.ndimage import gaussian_filter, shift

    for strength in (1, 2, 3, 4, 5):
        yield images + 1.5 * strength * rng.normal(size=images.shape)
        yield gaussian_filter(images, (0, 0.3 * strength, 0.3 * strength))
        yield images.mean() + (images - images.mean()) * (1 - 0.16 * strength)
        yield shift(images, (0, 0.25 * strength, 0.0))


def digits() -> Iterator[Panel]:
    """Four models of handwritten digits, each before twenty corruptions of the same images."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier

    rng = np.random.default_rng(0)
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(labels))
    train, val, test = np.split(order, [600, 1200])
    models = {
        "lr": LogisticRegression(C=0.01, max_iter=2000),
        "mlp": MLPClassifier((50,), max_iter=300, random_state=0),
        "rf": RandomForestClassifier(100, min_samples_leaf=3, random_state=0),
        "nb": GaussianNB(var_smoothing=0.05),
    }
    for model in models.values():
        model.fit(images[train], labels[train])
    for changed in corrupted(images[test].reshape(-1, 8, 8), rng):
        flat = changed.reshape(len(test), -1)
        yield (
            {
                name: (
                    sg.Source(probs=model.predict_proba(images[val]), labels=labels[val]),
                    sg.Target(probs=model.predict_proba(flat)),
                )
                for name, model in models.items()
            },
            labels[test],
        )


def trials(panels: Iterator[Panel]) -> Iterator[dict[str, float]]:
    for models, labels in panels:
        found = sg.aline(models)
        for name, (source, target) in models.items():
            truth = float(np.mean(target.predictions != labels))
            yield {
                "unchanged": abs(source.error - truth),
                "ALine-D": abs(found[name].error - truth),
                "ALine-S": abs(found[name].details["aline_s"] - truth),
                "auto": abs(sg.estimate(source, target).error - truth),
                "straight": float(not found[name].warnings),
            }


def main() -> None:
    parser = parser_of(__doc__, "the digits alone")
    parser.add_argument("tables", type=Path, nargs="*")
    given = parser.parse_args()
    sets = {} if given.quick else {path.stem: tables(path) for path in given.tables}
    out: dict[str, dict] = {}
    for name, panels in {**sets, "digits, corrupted": digits()}.items():
        held = list(trials(panels))
        straight = np.array([t["straight"] for t in held]) > 0
        print(f"{name}: {len(held)} models and targets, {100 * straight.mean():.0f}% on a line")
        for method in ("unchanged", "ALine-D", "ALine-S", "auto"):
            miss = 100 * np.array([t[method] for t in held])
            on = miss[straight].mean() if straight.any() else float("nan")
            out.setdefault(name, {})[method] = [miss.mean(), float(np.median(miss)), miss.max(), on]
            print(
                f"  {method:10} mean {miss.mean():5.1f}  median {np.median(miss):5.1f}  worst {miss.max():4.0f}"
                f"  where on a line {on:5.1f}"
            )
    save(given, out)


if __name__ == "__main__":
    main()
