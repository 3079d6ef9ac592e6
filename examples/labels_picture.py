"""Draw what labels are worth, from results/labels.json: python examples/labels_picture.py [FILE]"""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
from _pictures import name, save

SETS = {
    "natural-527": "527 natural shifts",
    "corrupted CIFAR-10, 96 targets": "CIFAR-10, 96 corruptions",
}


def main(out):
    """One panel a set: mean absolute error against the number of labels, with the scores and without them."""
    table = json.loads((Path(__file__).parents[1] / "results" / "labels.json").read_text())
    # Small, so that its letters can be read on a phone.
    figure, panels = plt.subplots(1, 2, figsize=(5.6, 3.0), sharey=True, layout="constrained")
    for axes, (key, title) in zip(panels, SETS.items(), strict=True):
        rows = sorted((r for r in table if r["set"] == key), key=lambda r: r["labels"])
        some = [r for r in rows if r["labels"]]
        axes.plot(
            [r["labels"] for r in rows],
            [100 * r["miss"] for r in rows],
            "o-",
            color="#1f6fb4",
            label="with the scores",
        )
        axes.plot(
            [r["labels"] for r in some],
            [100 * r["alone"] for r in some],
            "s-",
            color="#d98032",
            label="labels alone",
        )
        axes.set_xscale("symlog", linthresh=10)
        axes.set_xticks([0, 10, 20, 50, 200], ["0", "10", "20", "50", "200"])
        axes.minorticks_off()
        axes.set(title=title, xlabel="labels", ylim=(0, None))
        axes.title.set_fontsize(10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("mean absolute error, points")
    panels[0].legend(frameon=False, fontsize=9)
    save(figure, out, dpi=150)


if __name__ == "__main__":
    main(name(__file__, sys.argv))
