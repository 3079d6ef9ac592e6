"""Draw the story of docs/gallery/images.md: python examples/gallery_images_picture.py [FILE]

The demo's network under 14 shifts: the answer of `auto`, with its interval, beside the truth.
"""

import sys

import numpy as np
from _pictures import name, percent, save
from matplotlib.figure import Figure

import shiftgauge as sg


def main(out):
    """Estimate every shift and draw."""
    demo = sg.demo_data()
    shifts = list(demo.targets)
    found = [sg.interval(demo.source, demo.targets[one], "auto", replicates=40) for one in shifts]
    names = np.array(demo.source.classes)
    true = [np.mean(names[demo.targets[one].predictions] != demo.labels) for one in shifts]
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    rows = np.arange(len(shifts))
    low, high = (np.array([getattr(one.range, end) for one in found]) for end in ("low", "high"))
    axes.hlines(rows, low, high, color="#CC79A7", linewidth=5, alpha=0.6, label="auto, with its 95% range")
    axes.plot([one.error for one in found], rows, "o", color="#CC79A7")
    axes.plot(true, rows, "s", color="#333333", markersize=5, label="truth")
    axes.axvline(demo.source.error, color="#0072B2", linestyle=":", label="on the validation rows")
    axes.set_yticks(rows, [one.replace("_", " ") for one in shifts])
    axes.invert_yaxis()
    axes.set(xlabel="error", xlim=(0, 1))
    percent(axes.xaxis)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    save(figure, out)


if __name__ == "__main__":
    main(name(__file__, sys.argv))
