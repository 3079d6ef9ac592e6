"""What was asked reaches the report, and its Markdown says what its summary holds, cell by cell."""

import json
import re

import numpy as np

import shiftgauge as sg
from shiftgauge.methods import Pair
from shiftgauge.reports import report
from shiftgauge.reports.figures import pictures
from shiftgauge.reports.markdown import escape
from shiftgauge.reports.page import MARKS
from shiftgauge.reports.provenance import fingerprint, provenance
from shiftgauge.reports.slices import class_table, slice_tables


def tables(text):
    """Every table of a Markdown text, by the first word of its head: head and rows, as lists of cells."""
    found, lines = {}, text.splitlines()
    cells = [
        [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] if line[:1] == "|" else None for line in lines
    ]
    begin = [i for i, row in enumerate(cells) if row and not (i and cells[i - 1])]
    for i in begin:
        end = next((j for j in range(i, len(cells)) if not cells[j]), len(cells))
        head, rule, *rows = cells[i:end]
        assert all(re.fullmatch("---:?", cell) for cell in rule)
        assert {len(row) for row in (rule, *rows)} == {len(head)}
        found[head[0]] = (head, rows)
    return found


def in_percent(value):
    return "–" if value is None else f"{100 * value:.1f}%"


def test_markdown_holds_every_table_of_the_summary(hostile):
    held, found = hostile.summary, tables(hostile.to_markdown())
    truth = held["comparison"]["target"]["true_error"]
    expected = []
    for one in held["comparison"]["estimates"]:
        if one["error"] is not None:
            span, name = one["range"] or one.get("interval"), one["method"]
            shown = f"{in_percent(span['low'])} to {in_percent(span['high'])}" if span else "–"
            name = f"**{name}**" if name == "scot" else name
            expected.append([name, in_percent(one["error"]), shown, f"{100 * (one['error'] - truth):+.1f}"])
    assert sum(row[2] != "–" for row in expected) >= 1
    head, rows = found.pop("method")
    assert head == ["method", "estimated error", "range", "miss"]
    assert rows == [*expected, ["truth", in_percent(truth), "", ""]]

    head, rows = found.pop("check")
    assert head == ["check", "level", "what was found"]
    assert [row[1] for row in rows] == [f"{MARKS[f['level']]} {f['level']}" for f in held["findings"]]
    assert [row[2] for row in rows] == [escape(f["meaning"]) for f in held["findings"]]

    (table,) = held["slices"]
    head, rows = found.pop(escape("<b>day</b>"))
    assert head[1:] == ["rows", "estimated error", "range"]
    for row, r in zip(rows, table["rows"], strict=True):
        span = f"{in_percent(r['range']['low'])} to {in_percent(r['range']['high'])}"
        assert row == [escape(r["slice"]), str(r["rows"]), in_percent(r["error"]), span]

    _, rows = found.pop("predicted class")
    expected = [[escape(r["class"]), str(r["rows"]), in_percent(r["error"])] for r in held["classes"]]
    assert [row[:3] for row in rows] == expected
    _, rows = found.pop("assumed label shares")
    assert [row[1] for row in rows] == [in_percent(r["error"]) for r in held["marginals"]["rows"]]
    assert not found


def test_without_truth_markdown_has_no_read_column_misses(plain):
    head, rows = tables(plain.to_markdown())["method"]
    assert head == ["method", "estimated error", "range"]
    assert "truth" not in [row[0] for row in rows]


def test_markdown_lists_the_thirty_largest_classes(plain):
    rows = [{"class": f"c{j}", "rows": j, "share": 0.0, "error": 0.1, "range": None} for j in range(31)]

    def of(some):
        text = type(plain)({**plain.summary, "classes": some}).to_markdown()
        return [row[0] for row in tables(text)["predicted class"][1]], "The 30 largest of 31 classes." in text

    assert of(rows[:30]) == ([f"c{j}" for j in range(30)], False)  # in their own order
    assert of(rows) == ([f"c{j}" for j in range(30, 0, -1)], True)


def test_markdown_says_where_it_came_from(plain, hostile):
    certificate = plain.summary["answer"]["details"]["certificate"]
    last = plain.to_markdown().rstrip().splitlines()[-1]
    assert f"gap of the optimum {certificate['gap']:.1e}" in last
    assert fingerprint_of(plain, "source") in last
    assert fingerprint_of(plain, "target") in last  # and no command below, for none was given
    assert hostile.to_markdown().rstrip().splitlines()[-1] == "`shiftgauge report '<s>' 'id' $(id)`"
    assert "Why:" not in plain.to_markdown()  # a method was named


def fingerprint_of(made, side):
    return f"{side} `{made.summary['provenance'][side]['fingerprint'][:12]}`"


def test_the_comparison_holds_the_answers_interval(plain):
    by_name = {one["method"]: one for one in plain.summary["comparison"]["estimates"]}
    assert by_name["cott"]["interval"] == plain.summary["answer"]["interval"]
    assert "interval" not in by_name["cot"]


def test_every_option_reaches_the_answer(scores):
    """Against the estimate by itself, with the same options; each of them changes a number."""
    rng = np.random.default_rng(0)
    source = sg.Source(scores["logits"], scores["labels"])
    target = sg.Target(scores["shifted"])
    options = {
        "calibration": "none",
        "marginal": "mlls",
        "level": 0.8,
        "replicates": 60,
        "seed": 5,
        "groups": rng.integers(40, size=target.n),
        "source_groups": rng.integers(40, size=source.n),
    }
    steps = []
    made = report(source, target, "scot", **options, progress=steps.append).summary
    alone = sg.estimate(source, target, "scot", interval=True, **options)
    assert made["answer"]["error"] == alone.error
    assert made["answer"]["interval"] == {**alone.interval.__dict__}
    compared = next(e for e in made["comparison"]["estimates"] if e["method"] == "cott")
    assert compared["error"] == sg.estimate(source, target, "cott", calibration="none", marginal="mlls").error
    told = {name: value for name, value in options.items() if "groups" not in name}
    assert made["provenance"]["options"] == {**told, "method": "scot", "proportions": "unknown"}
    assert [step for step in steps if step in ("calibration", "interval", "tables")] == [
        "calibration",
        "interval",
        "tables",
    ]
    assert "cott" in steps  # the methods tell too


def test_given_shares_are_called_given(source, target):
    steps = []
    made = report(
        source,
        target,
        "scot",
        marginal=np.full(5, 0.2),
        replicates=0,
        by=np.arange(800) % 2,
        progress=steps.append,
    )
    assert made.summary["provenance"]["options"]["marginal"] == "given"
    assert "interval" not in steps
    (table,) = made.summary["slices"]
    assert table["column"] == "group"
    assert all(row["range"]["low"] < row["range"]["high"] for row in table["rows"])


def test_a_slice_without_a_value_and_a_class_without_rows(scores):
    source = sg.Source(scores["logits"], scores["labels"])
    kept = scores["shifted"].argmax(1) != 4
    pair = Pair(source, sg.Target(scores["shifted"][kept]))
    *others, never = class_table(pair, "scot", 0.9)
    assert (never["rows"], never["share"], never["error"]) == (0, 0.0, None)
    assert all(row["error"] is not None for row in others)
    values = np.where(np.arange(kept.sum()) % 2, "", "b")
    (table,) = slice_tables(pair, values, None, pair.estimate("scot"), replicates=20, marginal="source")
    assert {row["slice"] for row in table["rows"]} == {"(missing)", "b"}
    assert table["left_out"] == 0


def test_words_for_pictures_name_the_class_that_changed_most(plain):
    shares = plain.summary["proportions"]
    moved = np.abs(np.array(shares["target_predictions"]) - shares["source_predictions"])
    drawn = pictures(plain.summary)
    assert f"changed most for {shares['classes'][moved.argmax()]}:" in drawn["proportions"].alt
    for one in drawn.values():  # nothing behind the axes: the page's own colour shows through, light or dark
        assert "#ffffff" not in one.svg.lower()
        assert "<metadata>" not in one.svg


def test_the_sentence_names_the_target_and_the_source_error(plain, hostile, source):
    assert plain.summary["answer"]["sentence"].startswith("On the target (800 rows) the model is estimated")
    assert plain.summary["answer"]["sentence"].endswith(
        f", against {in_percent(source.error)} on the labelled source."
    )
    assert hostile.summary["answer"]["sentence"].startswith("On t&<u>.csv (800 rows)")


def test_each_form_is_its_own(plain, plain_page):
    assert plain.render("html") == plain_page
    assert plain.render("md") == plain.to_markdown()
    assert json.loads(plain.render("json"))["answer"]["sentence"] == plain.summary["answer"]["sentence"]


def test_the_page_ends_with_a_line(plain_page):
    assert plain_page.endswith("</html>\n")


def test_provenance_of_one_sample(source, target, tmp_path):
    held = provenance(source, None, {}, {})
    assert held["target"]["fingerprint"] is None
    assert held["source"]["fingerprint"] == fingerprint(source)
    np.save(tmp_path / "t.npy", target.scores)
    scanned = sg.scan(tmp_path / "t.npy", kind="logits")
    assert fingerprint(scanned) == scanned.fingerprint
