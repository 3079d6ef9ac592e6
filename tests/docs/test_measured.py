"""Tables of measurements on the pages hold the numbers of the results files."""

import json
import re

from docs_pages import DOCS, ROOT

RESULTS = json.loads((ROOT / "results" / "labels.json").read_text(encoding="utf-8"))
NATURAL = ("natural-90", "natural-302", "natural-527")
NEW = ("new tables", "new texts", "new images")
CORRUPTED = ("corrupted CIFAR-10, 96 targets",)


def mean(sets, labels, field):
    """The mean over all targets of some sets, in percent."""
    rows = [row for row in RESULTS if row["set"] in sets and row["labels"] == labels]
    assert len(rows) == len(sets)
    return 100 * sum(row[field] * row["trials"] for row in rows) / sum(row["trials"] for row in rows)


def cells(page, beginning):
    """The cells of the one table row that begins so."""
    (line,) = re.findall(rf"^\| {re.escape(beginning)}.*$", page.read_text(encoding="utf-8"), re.M)
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_readme_quotes_the_measured_errors_and_coverage():
    page = ROOT / "README.md"
    for beginning, sets in (("919 natural", NATURAL), ("1,070 new", NEW), ("96 corruptions", CORRUPTED)):
        measured = [mean(sets, 0, "miss"), mean(sets, 20, "miss"), mean(sets, 20, "alone")]
        assert cells(page, beginning)[-3:] == [f"{value:.1f}" for value in measured]
    holds = {f"{mean(NATURAL, 0, 'holds90'):.0f}%": "919", f"{mean(NEW, 0, 'holds90'):.0f}%": "1,070"}
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert all(f"{share} of the {targets}" in text for share, targets in holds.items())


def test_ten_labels_plus_the_scores_are_as_good_as_twenty_alone():
    for sets in (NATURAL, NEW, CORRUPTED):
        assert mean(sets, 10, "miss") <= mean(sets, 20, "alone")


def test_the_page_on_labels_quotes_the_measured_errors():
    rows = {"natural-90": NATURAL[:1], "natural-302": NATURAL[1:2], "natural-527": NATURAL[2:]}
    rows |= {name: (name,) for name in NEW} | {"CIFAR-10, 96": CORRUPTED, "no shift": ("no shift",)}
    for beginning, sets in rows.items():
        shown = cells(DOCS / "explanation" / "labels.md", beginning)[1:7]
        measured = [
            f"{mean(sets, n, 'miss'):.1f} ({mean(sets, n, 'alone'):.1f})" for n in (10, 20, 50, 100, 200)
        ]
        assert shown == [f"{mean(sets, 0, 'miss'):.1f}", *measured]


def test_the_comparison_with_peers_quotes_what_was_measured():
    page = DOCS / "explanation" / "comparison.md"
    measured = json.loads((ROOT / "benchmarks" / "peers" / "measured.json").read_text(encoding="utf-8"))
    tools = [measured[name] for name in ("nannyml", "evidently", "shiftgauge")]
    seconds = [one.get("cpu_seconds_least_of_3") or min(one["cpu_seconds"]) for one in tools]
    sizes = [one.get("page_mb") or f"{one['page_bytes'] / 1e6:.2f}" for one in tools]
    assert cells(page, "lines of code")[1:] == [str(one["lines"]) for one in tools]
    assert cells(page, "processor seconds")[1:] == [f"{value:.1f}" for value in seconds]
    assert cells(page, "page, MB")[1:] == [str(size) for size in sizes]
    assert cells(page, "packages")[1:] == [str(one["packages"]) for one in tools]
    installed = [re.match(r"[\d,]+", cell)[0] for cell in cells(page, "installed, MB")[1:]]
    assert installed == [f"{one['installed_mb']:,}" for one in tools]
