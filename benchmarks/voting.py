"""Models that vote: where confidence-based methods lose, and what a probability of exactly zero counts as.

    python benchmarks/voting.py [--quick]

Forests of ten trees, five neighbours and small trees vote: where nobody voted for a class its probability is zero, and
some labels stand there. Three tables of scikit-learn's own, without shift, and with one that was not chosen for it (the
half of the rows with the larger first principal component): mean miss of each method in points, beside a logistic
regression on the same rows; and, where a label has probability zero, with zeros learned from the source and with 1e-12.
`gap` is confidence minus accuracy on the source before calibration in points, and `values` how many different
confidences there are per 100 source rows: what the doctor looks at.
"""

from __future__ import annotations

import numpy as np
from _options import parser_of
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import shiftgauge as sg

METHODS = ("ac", "cot", "cott", "scot", "label-shift", "auto")
TABLES = {"digits": load_digits, "wine": load_wine, "breast cancer": load_breast_cancer}
MODELS = {
    "forest of 10": lambda seed: RandomForestClassifier(10, random_state=seed),
    "5 neighbours": lambda seed: KNeighborsClassifier(5),
    "forest of 100": lambda seed: RandomForestClassifier(100, random_state=seed),
    "leaves of 5": lambda seed: DecisionTreeClassifier(min_samples_leaf=5, random_state=seed),
    "logistic": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}


def split(X: np.ndarray, seed: int, shifted: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to train on, the source's and the target's."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(X))
    if not shifted:
        return rows[: len(X) // 3], rows[len(X) // 3 : 2 * len(X) // 3], rows[2 * len(X) // 3 :]
    Z = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    first = Z @ np.linalg.svd(Z, full_matrices=False)[2][0]
    upper = first[rows] > np.median(first)
    lower = rows[~upper]
    return lower[: len(lower) // 2], lower[len(lower) // 2 :], rows[upper]


def misses(source: sg.Source, target: sg.Target, truth: float) -> dict[str, float]:
    return {name: 100 * abs(sg.estimate(source, target, name).error - truth) for name in METHODS}


def without_zeros(probs: np.ndarray) -> np.ndarray:
    return np.maximum(probs, 1e-12) / np.maximum(probs, 1e-12).sum(axis=1, keepdims=True)


def seen_by_the_doctor(source: sg.Source) -> dict[str, float]:
    confidence = source.scores.max(axis=1)
    gap = 100 * (confidence.mean() - 1 + source.error)
    return {"gap": float(gap), "values": 100 * len(np.unique(confidence.round(9))) / source.n}


def main() -> None:
    parser = parser_of(__doc__, "one seed instead of ten", numbers=False)
    seeds = range(1 if parser.parse_args().quick else 10)
    found: dict[tuple[bool, str], list[dict[str, float]]] = {}
    by_model: dict[tuple[bool, str], list[dict[str, float]]] = {}
    for load in TABLES.values():
        X, y = load(return_X_y=True)
        for shifted in (False, True):
            for seed in seeds:
                train, known, new = split(X, seed, shifted)
                for name, make in MODELS.items():
                    model = make(seed).fit(X[train], y[train])
                    if len(model.classes_) < len(np.unique(y)):
                        continue
                    source = sg.Source(probs=model.predict_proba(X[known]), labels=y[known])
                    target = sg.Target(probs=model.predict_proba(X[new]))
                    truth = float(np.mean(target.predictions != y[new]))
                    learned = misses(source, target, truth)
                    by_model.setdefault((shifted, name), []).append({**learned, **seen_by_the_doctor(source)})
                    if not (source.scores[np.arange(source.n), source.labels] == 0.0).any():
                        continue
                    found.setdefault((shifted, "learned"), []).append(learned)
                    fixed = sg.Source(probs=without_zeros(source.scores), labels=y[known])
                    other = sg.Target(probs=without_zeros(target.scores))
                    found.setdefault((shifted, "1e-12"), []).append(misses(fixed, other, truth))
    columns = (*METHODS, "gap", "values")
    print(f"mean miss in points{'':12}" + "".join(f"{name:>13}" for name in columns))
    for (shifted, name), rows in sorted(by_model.items()):
        means = "".join(f"{np.mean([row[column] for row in rows]):13.1f}" for column in columns)
        print(f"{'shifted' if shifted else 'no shift':9} {name:14} n={len(rows):3} {means}")
    print(f"\nmean miss in points{'':12}" + "".join(f"{name:>13}" for name in METHODS))
    for (shifted, zero), rows in sorted(found.items()):
        means = "".join(f"{np.mean([row[name] for row in rows]):13.1f}" for name in METHODS)
        print(f"{'shifted' if shifted else 'no shift':9} zero {zero:9} n={len(rows):3} {means}")
    for shifted in (False, True):
        ratio = [
            np.mean([row[name] for row in found[shifted, "1e-12"]])
            / np.mean([row[name] for row in found[shifted, "learned"]])
            for name in METHODS
        ]
        print(f"{'shifted' if shifted else 'no shift':9} ratio{'':16}" + "".join(f"{r:13.2f}" for r in ratio))


if __name__ == "__main__":
    main()
