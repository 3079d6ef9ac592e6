"""The help: panels, defaults, methods; and --quiet."""

import inspect
import json
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
import typer

from shiftgauge.cli.app import COMMANDS, app
from shiftgauge.cli.inputs import InputOptions
from shiftgauge.cli.options import DATA, LABELS, OUTPUT
from shiftgauge.methods import METHODS


@pytest.fixture
def narrow(monkeypatch, shiftgauge):
    """The command as a terminal of 80 columns shows it, without frames."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")

    def call(*words):
        ran = shiftgauge(*words)
        assert ran.code == 0
        assert max(map(len, ran.out.splitlines())) <= 80
        return " ".join(ran.out.replace("│", " ").split())

    return call


def all_commands(group, words=()):
    """Every command of the group and of the groups in it, by its words."""
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from all_commands(one, (*words, name))
        else:
            yield (*words, name), one


ALL = dict(all_commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_has_json_and_quiet(words):
    flags = {max(p.opts, key=len) for p in ALL[words].params if getattr(p, "is_flag", False)}
    assert {"--json", "--quiet"} <= flags


def option_types(group):
    """The option and the type of its value, of every command; of a list that of its elements."""
    for command in group.registered_commands:
        for name, p in inspect.signature(command.callback, eval_str=True).parameters.items():
            if not hasattr(p.annotation, "__metadata__"):
                continue
            kind, option = get_args(p.annotation)
            if isinstance(option, typer.models.OptionInfo):
                names = [*(option.param_decls or ()), f"--{name.replace('_', '-')}"]
                inner = next(one for one in (get_args(kind) or (kind,)) if one is not type(None))
                yield next(one for one in names if one.startswith("--")), (get_args(inner) or (inner,))[0]
    for one in group.registered_groups:
        if one.name != "bench":
            yield from option_types(one.typer_instance)


def test_an_option_has_one_type_in_all_commands():
    """One word, one meaning: a path is a path and a flag is a flag in every command that has the option."""
    types = {}
    for name, kind in option_types(app):
        types.setdefault(name, set()).add(kind)
    assert types["--method"] == {str}
    assert {name: kinds for name, kinds in types.items() if len(kinds) > 1} == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_options_stand_in_panels(narrow, command):
    text = narrow(command, "--help")
    options = [
        p for p in typer.main.get_command(app).commands[command].params if p.param_type_name == "option"
    ]
    assert "--quiet" in text[text.index(OUTPUT) :]
    for option in options:
        assert max(option.opts, key=len) in text
        default = option.default
        if isinstance(default, str | int | float) and not isinstance(default, bool) and option.show_default:
            assert f"[default: {default}]" in text


def test_an_option_stands_where_it_belongs():
    """Options on how files are read are in one panel; the limit itself is among the first."""
    panels = {p.name: p.rich_help_panel for p in ALL["estimate",].params if p.param_type_name == "option"}
    assert {panels[field.name] for field in fields(InputOptions)} == {DATA}
    assert panels["as_json"] == OUTPUT
    assert panels["method"] is panels["fail_above"] is panels["on"] is panels["level"] is None
    assert panels["labels"] == panels["check"] == LABELS


@pytest.mark.parametrize(
    "words",
    [["estimate"], ["slices"], ["label-progress"]],
)
def test_arguments_are_shown_in_capitals(narrow, words):
    text = narrow(*words, "--help")
    for one in ALL[tuple(words)].params:
        if one.param_type_name == "argument":
            assert (one.metavar or one.name.upper()) in text.split("Arguments")[0]


def test_help_is_short_and_commands_stand_in_groups(shiftgauge, monkeypatch):
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert len(shiftgauge("estimate", "--help").out.splitlines()) <= 70
    text = shiftgauge("--help").out
    panels = [text.index(f"─ {name} ─") for name in ("Start", "Look closer", "Labels", "Service", "Research")]
    assert panels == sorted(panels)
    first = text[panels[0] : panels[1]]
    assert "demo" in first
    assert "estimate" in first
    assert "bench" in text[panels[-1] :]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_its_line(shiftgauge, name):
    lines = shiftgauge("methods").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if line.split()[:1] == [name]]) == 1
    assert f"{name} {METHODS[name].meaning} " in " ".join(" ".join(lines).split())
    (second,) = [line for line in lines if line.startswith("--second")]
    assert (name in second.split(": ")[1].split(", ")) == METHODS[name].needs_second


def test_methods_as_json(shiftgauge):
    found = shiftgauge("methods", "--json").json
    schema = json.loads(resources.files("shiftgauge").joinpath("data/schema.json").read_text())
    jsonschema.validate(found, schema)
    assert [one["name"] for one in found["methods"]] == list(METHODS)
    assert {one["name"] for one in found["methods"] if "marginal" in one["takes"]} == {"cot", "cott", "scot"}


@pytest.mark.parametrize("words", [("monitor",), *(w for w in ALL if w[0] != "bench")], ids=" ".join)
def test_every_help_ends_with_an_example(narrow, words):
    assert f"Example: shiftgauge {' '.join(words)}" in narrow(*words, "--help")


def test_quiet(shiftgauge, files, tmp_path):
    """No table; JSON that was asked for, files and the exit code stay."""
    words = ("estimate", *files, "-m", "ac", "--replicates", "0")
    assert shiftgauge(*words).out != ""
    ran = shiftgauge(*words, "--quiet", "--save-rows", tmp_path / "rows.csv")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (tmp_path / "rows.csv").exists()
    assert shiftgauge(*words, "-q", "--json").json["estimates"][0]["method"] == "ac"
    assert shiftgauge(*words, "-q", "--fail-above", "0.01").code == 1
    assert shiftgauge(*words).out != ""
    assert shiftgauge("estimate", "a", "b", "-q").err == "shiftgauge: a: no such file\n"


@pytest.mark.slow
def test_warm_up_says_where_the_machine_code_is_kept(shiftgauge):
    ran = shiftgauge("warm-up", "--json")
    assert ran.code == 0
    assert any(Path(ran.json["cache"]).rglob("*.nbc"))
