"""A command without documentation fails the suite; the reference is what the command says of itself."""

import importlib.util
import re

import pytest
from docs_pages import DOCS, blocks, pages

spec = importlib.util.spec_from_file_location("docs_commands", DOCS / "_hooks" / "commands.py")
hooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hooks)
PAGE = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
COMMANDS = hooks.commands()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command):
    assert re.search(rf"^##+ shiftgauge {command}$", PAGE, re.M), (
        f"docs/reference/commands.md has no section on {command}"
    )
    assert f"<!-- command: {command} -->" in PAGE, (
        f"docs/reference/commands.md does not place the reference of {command}"
    )


@pytest.mark.parametrize("command", [name for name in COMMANDS if not name.startswith("bench ")])
def test_every_command_has_an_example_that_is_run(command):
    run = "\n".join(b.text for page in pages() for b in blocks(page) if b.language in ("sh", "console"))
    assert re.search(rf"shiftgauge {command}\b", run), f"no example of shiftgauge {command}"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_reference_names_every_option(command):
    text = hooks.reference(command)
    for parameter in COMMANDS[command].params:
        if getattr(parameter, "hidden", False):  # an old word, still accepted
            continue
        if parameter.param_type_name == "option":
            assert f"`{max(parameter.opts, key=len)}`" in text
        else:
            assert parameter.name.upper() in text
    assert all(line.count("|") - line.count("\\|") in (0, 3, 4) for line in text.splitlines())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_prints_json(command):
    names = {name for parameter in COMMANDS[command].params for name in getattr(parameter, "opts", ())}
    assert names & {"--json", "--format"}


def test_every_documented_command_exists():
    assert set(hooks.MARK.findall(PAGE)) == set(COMMANDS)


def test_marks_are_replaced():
    made = hooks.on_page_markdown(PAGE)
    assert "<!-- command: estimate" not in made
    assert "`--fail-above`" in made
