"""Draw the story of docs/gallery/nightly.md: python examples/gallery_nightly_picture.py [FILE]

Fourteen nights of one network's scores; the camera's lens gets dirtier. What the nightly job wrote down, and its limit.
"""

import sys

from _pictures import name, percent, save
from matplotlib.figure import Figure

import shiftgauge as sg

LIMIT = 0.3


def main(out):
    """Estimate every night and draw."""
    demo = sg.demo_data()
    errors = [sg.estimate(demo.source, target, "auto").error for target in demo.targets.values()]
    nights = range(1, len(errors) + 1)
    figure = Figure(figsize=(6.4, 3), layout="constrained")
    axes = figure.subplots()
    axes.bar(nights, errors, color=["#D55E00" if error > LIMIT else "#0072B2" for error in errors])
    axes.axhline(LIMIT, color="#333333", linestyle=":")
    axes.text(0.6, LIMIT + 0.02, "--fail-above 0.3", color="#333333")
    axes.set(xlabel="night", ylabel="estimated error", xticks=list(nights))
    percent(axes.yaxis)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, out)


if __name__ == "__main__":
    main(name(__file__, sys.argv))
