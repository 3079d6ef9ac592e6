"""One report of the shared scores, and the command through its own module."""

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.reports import report

HOSTILE = ["<script>alert(1)</script>", "a|b", "$x^2$", "q\"'&amp;", "日本語"]


@pytest.fixture(scope="session")
def hostile(scores):
    """A report whose every given text tries to break out."""
    names = np.array(HOSTILE, dtype=object)
    source = sg.Source(logits=scores["logits"], labels=names[scores["labels"]], classes=HOSTILE)
    target = sg.Target(logits=scores["shifted"], classes=HOSTILE)
    return report(
        source,
        target,
        "scot",
        by={"<b>day</b>": np.where(np.arange(target.n) % 2, "<img src=x onerror=alert(2)>", "two")},
        replicates=40,
        truth=names[scores["truth"]],
        about={
            "source": "<i>s</i>.csv",
            "target": "t&<u>.csv",
            "command": "shiftgauge report '<s>' `id` $(id)",
        },
    )


@pytest.fixture(scope="session")
def plain(source, target):
    return report(source, target, "cott", replicates=40)


@pytest.fixture(scope="session")
def plain_page(plain):
    """Its figures take most of a second."""
    return plain.to_html()
