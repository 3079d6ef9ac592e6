"""Every option of every command reaches the library: a spy stands where the command calls, and stops it there."""

import importlib
import inspect

import numpy as np
import pytest
import typer

import shiftgauge as sg
from shiftgauge.cli.app import COMMANDS, app

#: The last call of each command into the library.
LAST = {
    "estimate": "shiftgauge.inference:compare",
    "compare": "shiftgauge.inference:compare",
    "doctor": "shiftgauge.inference:doctor",
    "metrics": "shiftgauge.inference:metrics",
    "slices": "shiftgauge.inference:slices",
    "timeline": "shiftgauge.over_time:timeline",
    "drivers": "shiftgauge.inference:drivers",
    "backtest": "shiftgauge.inference:backtest",
    "label-plan": "shiftgauge.inference:label_plan",
    "report": "shiftgauge.reports:report",
}
#: What a command cannot be called without.
NEEDED = {
    "slices": ("--by", "user"),
    "drivers": ("--by", "user"),
    "report": ("--json",),
    "timeline": ("--every", "20 rows"),
}
PAIR, READ, CHECKED = "shiftgauge.methods:Pair", "shiftgauge.io:open_source", "shiftgauge.io:read_checked"
SHARES, TRUTH = "shiftgauge.inference:label_shares", "shiftgauge.inference.estimates:true_error"
#: Options about the command's own output, with the test that shows what they do.
ELSEWHERE = {
    "json": "test_estimate.test_every_command_fits_the_schema",
    "save-rows": "test_estimate.test_rows",
    "fail-above": "test_promises.test_a_limit_that_is_met_exactly_is_not_exceeded",
    "on": "test_by_and_limits.test_the_limit_looks_at_what_it_is_told_to",
    "quiet": "test_help.test_quiet",
    "confusion": "test_inference_commands.test_metrics",
    "verbose": "test_estimate.test_verbose_shows_choice_reason_and_range",
    "save-plan": "test_labels.test_plan_label_estimate",
    "out": "reports/test_report_command.test_a_page, test_labels.test_plan_label_estimate",
    "format": "reports/test_report_command.test_json_and_markdown_on_stdout",
}


def users(value):
    return np.array_equal(value, [f"u{i % 12}" for i in range(40)])


def is_(expected):
    return lambda value: value == expected


def ends(name):
    return lambda value: str(value).endswith(name)


def setting(name, check):
    return lambda settings: check(getattr(settings, name))


def read_option(name, expected):
    return (READ, "options", setting(name, is_(expected)))


#: option -> (words, (the call, its argument, what it must be)), of every command that has it.
EVERYWHERE = {
    "logits": (("--logits",), read_option("kind", "logits")),
    "probs": (("--probs",), read_option("kind", "probs")),
    "source-labels": (("--source-labels", "y.npy"), (READ, "labels", ends("y.npy"))),
    "label-column": (("--label-column", "truth"), read_option("label", "truth")),
    "logit-prefix": (("--logit-prefix", "z"), read_option("logit_prefix", "z")),
    "prob-prefix": (("--prob-prefix", "p"), read_option("prob_prefix", "p")),
    "positive": (("--positive", "yes"), read_option("positive", "yes")),
    "negative": (("--negative", "no"), read_option("negative", "no")),
    "weight-column": (("--weight-column", "w"), read_option("weight", "w")),
    "prediction-column": (("--prediction-column", "d"), read_option("prediction", "d")),
    "id": (("--id", "user"), ("shiftgauge.io:open_labelled_target", "options", setting("id", is_("user")))),
    "threshold": (("--threshold", "0.9"), read_option("threshold", 0.9)),
    "tolerance": (("--tolerance", "0.1"), read_option("tolerance", 0.1)),
    "insist": (("--insist",), read_option("insist", True)),
    "drop-unlabelled": (("--drop-unlabelled",), read_option("drop_unlabelled", True)),
    "dask": (
        ("--dask", "tcp://127.0.0.1:1"),
        ("shiftgauge.engines:scan", "dask", is_("tcp://127.0.0.1:1")),
    ),
    "checkpoint": (
        ("--dask", "tcp://127.0.0.1:1", "--checkpoint", "kept"),
        ("shiftgauge.engines:scan", "checkpoint", ends("kept")),
    ),
    "labels": (("--labels", "picks.csv"), (PAIR, "labels", lambda value: value[39] == "a")),
    "use-labels": (("--use-labels",), (PAIR, "labels", lambda value: len(value) == 40)),
    "labels-chosen": (
        ("--labels", "picks.csv", "--labels-chosen", "unknown"),
        (PAIR, "labels_chosen", is_("unknown")),
    ),
    "plan": (
        ("--labels", "picks.csv", "--plan", "plan.json"),
        (PAIR, "labels_chosen", lambda value: value.n_target == 40),
    ),
    "second": (("--second", "t.csv"), (CHECKED, "second", ends("t.csv"))),
}
#: Options about labels, of commands whose last call takes the labels itself.
LABELS_OF_THE_CALL = {
    "labels": (("--labels", "picks.csv"), ("labels", lambda value: value[39] == "a")),
    "use-labels": (("--use-labels",), ("labels", lambda value: len(value) == 40)),
    "labels-chosen": (
        ("--labels", "picks.csv", "--labels-chosen", "unknown"),
        ("labels_chosen", is_("unknown")),
    ),
    "plan": (
        ("--labels", "picks.csv", "--plan", "plan.json"),
        ("labels_chosen", lambda value: value.n_target == 40),
    ),
    "check": (("--check",), ("truth", lambda value: len(value) == 40)),
    "truth": (("--truth", "y.npy"), ("truth", lambda value: list(value[:2]) == ["a", "b"])),
}
#: command -> option -> (words, (argument of its last call, or a call and its argument; what it must be)).
OWN = {
    "estimate": {
        "method": (("-m", "cot"), ("methods", is_(["cot"]))),
        "calibration": (("--calibration", "none"), (PAIR, "calibration", is_("none"))),
        "marginal": (("-m", "scot", "--marginal", "mlls"), ("marginal", is_("mlls"))),
        "proportions": (("--proportions", "same"), ("proportions", is_("same"))),
        "check": (("--check",), (TRUTH, "labels", lambda value: len(value) == 40)),
        "truth": (("--truth", "y.npy"), (TRUTH, "labels", lambda value: list(value[:2]) == ["a", "b"])),
        "replicates": (("--replicates", "31"), ("replicates", is_(31))),
        "level": (("--level", "0.7"), ("level", is_(0.7))),
        "seed": (("--replicates", "20", "--seed", "9"), ("seed", is_(9))),
        "groups": (("--replicates", "20", "--groups", "user"), ("groups", users)),
        "source-groups": (("--replicates", "20", "--source-groups", "user"), ("source_groups", users)),
    },
    "doctor": {
        "calibration": (("--calibration", "none"), (PAIR, "calibration", is_("none"))),
        "proportions": (("--proportions", "same"), ("proportions", is_("same"))),
        "seed": (("--seed", "9"), ("seed", is_(9))),
    },
    "metrics": {
        "method": (("-m", "label-shift"), ("method", is_("label-shift"))),
        "calibration": (("--calibration", "none"), (PAIR, "calibration", is_("none"))),
        "marginal": (("-m", "scot", "--marginal", "mlls"), ("marginal", is_("mlls"))),
        "proportions": (("--proportions", "same"), ("proportions", is_("same"))),
        "cost": (("--cost", "cost.csv"), ("cost", lambda value: value.tolist() == [[0, 1], [2, 0]])),
        "shares": (("--shares", "bbse"), (SHARES, "method", is_("bbse"))),
        "bias-correction": (
            ("--shares", "mlls", "--bias-correction"),
            (SHARES, "bias_correction", is_(True)),
        ),
        "level": (("--shares", "mlls", "--level", "0.7"), (SHARES, "level", is_(0.7))),
        "replicates": (("--shares", "mlls", "--replicates", "31"), (SHARES, "replicates", is_(31))),
        "seed": (("--shares", "mlls", "--seed", "9"), (SHARES, "seed", is_(9))),
    },
    "slices": {
        "by": ((), ("by", users)),
        "method": (("-m", "label-shift"), ("method", is_("label-shift"))),
        "by-file": (("--by-file", "s.csv"), ("by", users)),
        "calibration": (("--calibration", "none"), (PAIR, "calibration", is_("none"))),
        "marginal": (("--marginal", "mlls"), ("marginal", is_("mlls"))),
        "proportions": (("--proportions", "same"), ("proportions", is_("same"))),
        "level": (("--level", "0.7"), ("level", is_(0.7))),
        "replicates": (("--replicates", "31"), ("replicates", is_(31))),
        "seed": (("--seed", "9"), ("seed", is_(9))),
        "groups": (("--groups", "user"), ("groups", users)),
        "source-groups": (("--source-groups", "user"), ("source_groups", users)),
    },
    "drivers": {
        "by": ((), ("by", lambda value: all(map(users, value["user"])))),
        "calibration": (("--calibration", "none"), (PAIR, "calibration", is_("none"))),
        "proportions": (("--proportions", "same"), ("proportions", is_("same"))),
        "id": (("--id", "user"), (CHECKED, "options", setting("id", is_("user")))),
        "level": (("--level", "0.7"), ("level", is_(0.7))),
        "seed": (("--seed", "9"), (PAIR, "seed", is_(9))),
    },
    "timeline": {
        **LABELS_OF_THE_CALL,
        "time": (("--time", "day"), ("time", lambda value: len(value) == 40)),
        "every": (("--every", "day"), ("every", is_("day"))),
        "zone": (("--zone", "UTC"), ("zone", is_("UTC"))),
        "method": (("-m", "cot"), ("method", is_("cot"))),
        "calibration": (("--calibration", "none"), ("calibration", is_("none"))),
        "proportions": (("--proportions", "same"), ("proportions", is_("same"))),
        "id": (("--id", "user"), (CHECKED, "options", setting("id", is_("user")))),
        "level": (("--level", "0.7"), ("level", is_(0.7))),
        "seed": (("--seed", "9"), ("seed", is_(9))),
    },
    "backtest": {
        "id": (("--id", "user"), read_option("id", "user")),
        "method": (("-m", "ac", "-m", "cot"), ("methods", is_(["ac", "cot"]))),
        "by": (("--by", "user"), ("by", lambda value: list(value) == ["user"] and users(value["user"]))),
        "time": (("--time", "day"), ("time", lambda value: list(value) == list(range(40)))),
        "calibration": (("--calibration", "none"), ("calibration", is_("none"))),
        "repeats": (("--repeats", "3"), ("repeats", is_(3))),
        "replicates": (("--replicates", "31"), ("replicates", is_(31))),
        "seed": (("--seed", "9"), ("seed", is_(9))),
    },
    "label-plan": {
        "number": (("-n", "30"), ("n", is_(30))),
        "until-width": (("--until-width", "0.1"), ("until_width", is_(0.1))),
        "decide": (("--decide", "0.2"), ("decide", is_(0.2))),
        "level": (("--level", "0.7"), ("level", is_(0.7))),
        "calibration": (("--calibration", "none"), (PAIR, "calibration", is_("none"))),
        "proportions": (("--proportions", "same"), ("proportions", is_("same"))),
        "seed": (("--seed", "9"), ("seed", is_(9))),
    },
    "report": {
        **LABELS_OF_THE_CALL,
        "proportions": (("--proportions", "same"), ("proportions", is_("same"))),
        "method": (("-m", "cot"), ("method", is_("cot"))),
        "calibration": (("--calibration", "none"), ("calibration", is_("none"))),
        "marginal": (("--marginal", "mlls"), ("marginal", is_("mlls"))),
        "by": (("--by", "user"), ("by", lambda value: users(value["user"]))),
        "groups": (("--groups", "user"), ("groups", users)),
        "source-groups": (("--source-groups", "user"), ("source_groups", users)),
        "level": (("--level", "0.7"), ("level", is_(0.7))),
        "replicates": (("--replicates", "31"), ("replicates", is_(31))),
        "seed": (("--seed", "9"), ("seed", is_(9))),
    },
}


OWN["compare"] = OWN["estimate"]


class ReachedError(Exception):
    pass


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two classes on 40 rows, each side, with columns beside them."""
    rng = np.random.default_rng(0)
    lines = ["logit_a,logit_b,label,user,day"]
    for i, (a, b) in enumerate(rng.normal(size=(40, 2))):
        lines.append(f"{a},{b},{'ab'[rng.integers(2)]},u{i % 12},{i}")
    for name in ("s.csv", "t.csv"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (tmp_path / "cost.csv").write_text("0,1\n2,0\n")
    np.save(tmp_path / "y.npy", np.array(["a", "b"] * 20))
    picks = ["row,label", *(f"{i},a" for i in range(40))]
    (tmp_path / "picks.csv").write_text("\n".join(picks) + "\n")
    monkeypatch.chdir(tmp_path)
    sg.label_plan(sg.read_source("s.csv"), sg.read_target("t.csv"), n=40).save("plan.json")


def arguments(called, /, *args, **kwargs):
    """What arrived, by the names of the parameters."""
    bound = inspect.signature(called).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def spy(monkeypatch, place, stop):
    """Record each call; go on, or stop the command there."""
    module, name = place.split(":")
    package = importlib.import_module(module)
    real, seen = getattr(package, name), []

    def watched(*args, **kwargs):
        seen.append(arguments(real, *args, **kwargs))
        if stop:
            raise ReachedError
        return real(*args, **kwargs)

    monkeypatch.setattr(package, name, watched)
    return seen


def options_of(command):
    found = [p for p in typer.main.get_command(app).commands[command].params if p.param_type_name == "option"]
    return sorted(max(p.opts, key=len).lstrip("-") for p in found)


#: Commands that need every row in memory; what is about scans is refused there.
WHOLE, ABOUT_SCANS = ("backtest", "drivers", "timeline"), ("dask", "checkpoint")
CASES = [
    (command, name)
    for command in LAST
    for name in options_of(command)
    if name not in (*ELSEWHERE, "help") and not (command in WHOLE and name in ABOUT_SCANS)
]


@pytest.mark.parametrize("name", ABOUT_SCANS)
@pytest.mark.parametrize("command", WHOLE)
def test_options_about_scans_are_refused_where_nothing_is_scanned(shiftgauge, folder, command, name):
    ran = shiftgauge(
        command,
        *(["s.csv"] if command == "backtest" else ["s.csv", "t.csv"]),
        *NEEDED.get(command, ()),
        f"--{name}",
        "x",
    )
    assert ran.code == 2
    assert f"--{name} x" in ran.err


def test_a_checkpoint_of_a_small_target_is_refused(shiftgauge, folder):
    ran = shiftgauge("estimate", "s.csv", "t.csv", "--checkpoint", "kept")
    assert ran.code == 2
    assert "--checkpoint kept: t.csv is read into memory" in ran.err


@pytest.mark.parametrize(("command", "name"), CASES, ids=lambda part: part)
def test_every_option_reaches_the_library(shiftgauge, folder, monkeypatch, command, name):
    assert name in OWN[command] or name in EVERYWHERE, (
        f"nothing shows that --{name} of {command} reaches the library"
    )
    words, (*where, check) = OWN[command].get(name) or EVERYWHERE[name]
    place, argument = (LAST[command], *where) if len(where) == 1 else where
    if place == SHARES:  # it comes after the metrics, which do not matter here
        monkeypatch.setattr("shiftgauge.inference.metrics", lambda *args, **options: None)
    seen = spy(monkeypatch, place, stop=not place.endswith(":Pair"))
    if place.endswith(":Pair"):
        spy(monkeypatch, LAST[command], stop=True)
    inputs = ["s.csv"] if command == "backtest" else ["s.csv", "t.csv"]
    needed = () if name == "by" and command not in ("slices", "drivers") else NEEDED.get(command, ())
    ran = shiftgauge(command, *inputs, *needed, *words, *(("--json",) if "--json" not in needed else ()))
    assert seen, ran.err
    assert check(seen[-1][argument]), seen[-1][argument]


def test_every_command_is_looked_at():
    assert set(COMMANDS) - {"demo", "methods", "warm-up", "label-progress"} == set(LAST)
