"""Draw estimate against truth over the demo's shifts: python examples/demo_picture.py [FILE]

Without an argument it draws docs/images/demo.png, the picture of the README, and demo-dark.png beside it.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from _pictures import name, percent, save

import shiftgauge as sg


def main(out):
    """Estimate every shift by the default method, with its range, and by average confidence; draw both."""
    demo = sg.demo_data()
    found = [
        sg.compare(demo.source, target, ("auto", "ac"), truth=demo.labels) for target in demo.targets.values()
    ]
    truth = np.array([one.true_error for one in found])
    answers = [one["auto"] for one in found]
    middle = np.array([answer.error for answer in answers])
    low, high = (np.array([getattr(answer.range, end) for answer in answers]) for end in ("low", "high"))
    figure, axes = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
    axes.plot([0, 1], [0, 1], color="#888888", linewidth=1, label="estimate = truth")
    axes.errorbar(
        truth,
        middle,
        yerr=[middle - low, high - middle],
        fmt="o",
        color="#1f6fb4",
        ecolor="#9cc3e5",
        elinewidth=2,
        label=f"default method, {answers[0].range.level:.0%} range",
    )
    confidence = [one["ac"].error for one in found]
    axes.plot(truth, confidence, "s", color="#d98032", markersize=4.5, label="average confidence")
    axes.set(xlim=(0, 0.85), ylim=(0, 1), xlabel="true error", ylabel="estimated error")
    axes.set_title("One network, 14 shifts of Fashion-MNIST, no labels", fontsize=10.5)
    axes.legend(loc="upper left", frameon=True, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    percent(axes.xaxis, axes.yaxis)
    save(figure, out, dpi=160)


if __name__ == "__main__":
    main(name(__file__, sys.argv))
