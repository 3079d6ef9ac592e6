"""Draw the story of docs/gallery/text.md: python examples/gallery_text_picture.py [FILE]

Which library is this documentation from? The texts are the docstrings of numpy, scipy and scikit-learn as installed;
the shift is that only the first words are left. Needs scikit-learn.
"""

import importlib
import inspect
import sys

import numpy as np
from _pictures import name, percent, save
from matplotlib.figure import Figure
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import shiftgauge as sg

MODULES = {
    "numpy": "numpy numpy.linalg numpy.random numpy.ma numpy.polynomial",
    "scipy": "scipy.stats scipy.linalg scipy.optimize scipy.signal scipy.sparse scipy.special scipy.ndimage",
    "sklearn": "sklearn.linear_model sklearn.metrics sklearn.ensemble sklearn.preprocessing sklearn.cluster",
}
WORDS = (100, 50, 20, 10, 5, 3)


def docstrings():
    """Every docstring of more than 200 letters, and the library it is from."""
    found = {}
    for library, modules in MODULES.items():
        for module in map(importlib.import_module, modules.split()):
            for one in (getattr(module, word) for word in sorted(dir(module)) if not word.startswith("_")):
                methods = (
                    [m for k, m in sorted(vars(one).items()) if k[0] != "_"] if inspect.isclass(one) else []
                )
                for text in (inspect.getdoc(item) for item in (one, *methods) if callable(item)):
                    if text and len(text) > 200:
                        found.setdefault(text, library)
    return np.array(list(found), dtype=object), np.array(list(found.values()))


def samples():
    """A source of whole texts; targets of their first words, with the labels that nobody would have."""
    texts, labels = docstrings()
    order = np.random.default_rng(0).permutation(len(texts))
    train, val, new = np.array_split(order, 3)
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10.0)).fit(texts[train], labels[train])
    source = sg.from_sklearn(model, texts[val], labels[val]).source()
    short = {n: [" ".join(text.split()[:n]) for text in texts[new]] for n in WORDS}
    return source, {n: sg.from_sklearn(model, cut).target() for n, cut in short.items()}, labels[new]


def main(out):
    """Estimate every length and draw."""
    source, targets, labels = samples()
    true = [np.mean(np.array(one.classes)[one.predictions] != labels) for one in targets.values()]
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(range(len(WORDS)), true, "s-", color="#333333", label="truth")
    for method, colour in (("ac", "#0072B2"), ("cott", "#009E73"), ("scot", "#CC79A7")):
        errors = [sg.estimate(source, one, method).error for one in targets.values()]
        axes.plot(range(len(WORDS)), errors, "o--", color=colour, label=method.upper())
    axes.set_xticks(range(len(WORDS)), list(map(str, WORDS)))
    axes.set(xlabel="words left of each text", ylabel="error", ylim=(0, 1))
    percent(axes.yaxis)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    save(figure, out)


if __name__ == "__main__":
    main(name(__file__, sys.argv))
