"""A nightly task, as a scheduler such as Airflow would run it: python examples/nightly.py SOURCE TARGET OUT [LIMIT]

Estimates the error on last night's scores, writes the page and the JSON beside each other, and fails (exit
code 1) if the error is above LIMIT or the doctor says stop. Each step is a function, so that it can be a task.
"""

import sys
from pathlib import Path

from shiftgauge.io import read_source, read_target
from shiftgauge.reports import report


def examine(source, target):
    """Read both files and examine them."""
    unlabelled = read_target(target)
    about = {"source": Path(source).name, "target": Path(target).name}
    return report(read_source(source), unlabelled, about=about)


def publish(made, out):
    """Write the page for people and the JSON for machines."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    made.save(folder / "report.html")
    made.save(folder / "report.json")


def alarm(made, limit):
    """Why somebody should look, or nothing."""
    answer, diagnosis = made.summary["answer"], made.summary["diagnosis"]
    if answer["error"] > limit:
        return f"estimated error {answer['error']:.1%} is above the limit of {limit:.1%}"
    return f"the doctor says stop: {diagnosis['reasons'][0]}" if diagnosis["level"] == "stop" else ""


def main(source, target, out, limit="0.25"):
    """Run all steps; the exit code says whether somebody should look."""
    made = examine(source, target)
    publish(made, out)
    problem = alarm(made, float(limit))
    sys.stdout.write((problem or made.summary["answer"]["sentence"]) + "\n")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
