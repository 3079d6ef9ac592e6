"""Commands say the same of the same files, and what their numbers rest on."""

import re

import pytest


def test_numbers_per_class_say_what_they_rest_on(shiftgauge, files, tmp_path):
    """They have no range, and are ranked nowhere."""
    ran = shiftgauge("metrics", *files)
    assert "numbers per class have no range" in " ".join(ran.out.split())
    assert "no range" in shiftgauge("metrics", *files, "--json").json["note"]
    for form in ("html", "md"):
        out = tmp_path / f"r.{form}"
        shiftgauge("report", *files, "--replicates", "0", "-o", out, "--quiet")
        text = " ".join(out.read_text().split())
        assert "have no range" in text
        assert "guide to where to look" not in text


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
