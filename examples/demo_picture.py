"""Draw estimate against truth over the demo's shifts: python examples/demo_picture.py [FILE]

Without an argument it draws docs/images/demo.png, the picture of the README, and demo-dark.png beside it.
"""

import sys

from _pictures import name, save

import shiftgauge as sg
from shiftgauge import plots

METHODS = ("ac", "atc-ne", "cott", "scot")


def main(out):
    """Estimate every shift and draw."""
    demo = sg.demo_data()
    found = [
        sg.compare(demo.source, target, METHODS, target_labels=demo.labels)
        for target in demo.targets.values()
    ]
    errors = {method: [one[method].error for one in found] for method in METHODS}
    title = "One network, 14 shifts of Fashion-MNIST"
    save(plots.truth(errors, [one.true_error for one in found], methods=METHODS, title=title), out, dpi=160)


if __name__ == "__main__":
    main(name(__file__, sys.argv))
