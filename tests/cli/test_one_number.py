"""Commands say the same of the same files, and what their numbers rest on."""

import re

import pytest


def test_classes_have_ranges_and_are_ranked_nowhere_beyond_them(shiftgauge, files, tmp_path):
    ran = shiftgauge("metrics", *files, "--json").json
    assert all(row["precision_range"]["low"] <= row["precision"] for row in ran["classes"])
    assert "neither is known to be worse" in ran["note"]
    assert "no range" in shiftgauge("metrics", *files, "-m", "scot", "--json").json["note"]
    for form in ("html", "md"):
        out = tmp_path / f"r.{form}"
        shiftgauge("report", *files, "--replicates", "0", "-o", out, "--quiet")
        assert "neither class is known to be worse" in " ".join(out.read_text().split())


def test_a_plan_starts_from_what_estimate_says(shiftgauge, files):
    plan = shiftgauge("label-plan", *files, "--json").json
    (answer,) = shiftgauge("estimate", *files, "--json").json["estimates"]
    assert plan["error"] == pytest.approx(answer["error"], abs=1e-9)
    assert plan["range"]["high"] == pytest.approx(answer["range"]["high"], abs=1e-9)


def test_backtest_s_help_names_the_methods_that_run(shiftgauge, files):
    shown = re.sub(r"[^\w,-]+", " ", shiftgauge("backtest", "--help").out)
    ran = [
        row["method"] for row in shiftgauge("backtest", files[0], "--repeats", "1", "--json").json["kinds"]
    ]
    assert ", ".join(dict.fromkeys(ran)) in shown
