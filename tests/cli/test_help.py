"""The help: panels, defaults, methods; and --quiet."""

import json
import re
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Annotated

import jsonschema
import pytest
import typer

from shiftgauge.cli.app import VERBS, app
from shiftgauge.cli.files import ReadingOptions
from shiftgauge.cli.options import DATA, OUTPUT, PANELS, WHAT, Verb, panel
from shiftgauge.methods import METHODS

#: A score, and a method whose one number stands in the demo's text.
SKIPPED = {"unchanged", "cbpe", *(name for name, one in METHODS.items() if "score" in one.meaning)}


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


@pytest.mark.parametrize("verb", VERBS)
def test_options_stand_in_panels(narrow, verb):
    text = narrow(verb, "--help")
    command = typer.main.get_command(app).commands[verb]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    known = [WHAT, DATA, OUTPUT]
    shown = [title for title in known if f"╭─ {title} " in text]
    assert [text.index(title) for title in shown] == sorted(text.index(title) for title in shown)
    assert "╭─ Options " not in text
    assert "--quiet" in text[text.index(OUTPUT) :]
    assert "--help" in text[text.index(OUTPUT) :]
    for option in options:
        assert max(option.opts, key=len) in text
        default = option.default
        if isinstance(default, str | int | float) and not isinstance(default, bool) and option.show_default:
            assert f"[default: {default}]" in text
    assert {"logits", "label-column"} < set(PANELS[DATA])


def test_an_option_stands_where_it_belongs():
    """Whatever says how files are read is in that panel; what --fail-above looks at is beside it."""
    assert {panel(field.name.replace("_", "-")) for field in fields(ReadingOptions)} == {DATA}
    assert panel("on") == panel("fail-above") == OUTPUT


@pytest.mark.parametrize(
    "words", [["estimate"], ["slices"], ["push"], ["monitor", "token"], ["bench", "merge"]]
)
def test_a_word_that_takes_nothing_shows_nothing_to_pass(narrow, words):
    """`--json` takes no value, however the library calls its type; an argument is called as the sentences call it."""
    text = narrow(*words, "--help")
    assert "bool" not in text.lower()
    assert "list[str]" not in text
    command = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    for one in command.params:
        if one.param_type_name == "argument":
            assert one.name.upper() in text.split("Arguments")[0]
            assert one.name.upper() in text.split("Arguments")[1]


def test_brackets_in_a_help_are_text(capsys):
    """What looks like markup is not swallowed, nor escaped twice."""
    own = typer.Typer(add_completion=False)

    @own.command(cls=Verb)
    def verb(word: Annotated[str, typer.Option(help="either [this] or [bold]that[/bold]")] = "x") -> None:
        """Say [something]."""

    for _ in range(2):
        typer.main.get_command(own).main(["--help"], standalone_mode=False)
        text = capsys.readouterr().out
        assert "either [this] or [bold]that[/bold]" in " ".join(text.split())
        assert "Say [something]." in text


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_its_line(shiftgauge, name):
    lines = shiftgauge("methods").out.splitlines()
    (line,) = [line for line in lines if line.split()[:1] == [name]]
    assert METHODS[name].meaning in line
    assert ("second" in line.split()[-1:]) == METHODS[name].needs_second


def test_methods_as_json(shiftgauge):
    found = shiftgauge("methods", "--json").json
    schema = json.loads(resources.files("shiftgauge").joinpath("data/schema.json").read_text())
    jsonschema.validate(found, schema)
    assert [one["name"] for one in found["methods"]] == list(METHODS)
    assert {one["name"] for one in found["methods"] if "marginal" in one["takes"]} == {"cot", "cott", "scot"}


def test_the_demo_s_table_fits_a_terminal(shiftgauge):
    _, _, *table = shiftgauge("demo").out.split("\n\nA small network")[0].splitlines()
    assert len(table) > 12
    assert max(map(len, table)) <= 80
    head = " ".join(table[:2])
    assert all(re.split("[ -]", one.title)[0] in head for name, one in METHODS.items() if name not in SKIPPED)


def test_quiet(shiftgauge, files, tmp_path):
    """No table; JSON that was asked for, files and the exit code stay."""
    words = ("estimate", *files, "-m", "ac", "--replicates", "0")
    assert shiftgauge(*words).out != ""
    ran = shiftgauge(*words, "--quiet", "--rows", tmp_path / "rows.csv")
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
