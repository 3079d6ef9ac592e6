"""A command without documentation fails the suite; the reference is what the command says of itself."""

import importlib.util
import re

import pytest
from docs_pages import DOCS, blocks, pages

spec = importlib.util.spec_from_file_location("docs_commands", DOCS / "_hooks" / "commands.py")
hooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hooks)
PAGE = (DOCS / "commands.md").read_text(encoding="utf-8")
VERBS = hooks.commands()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_documented(verb):
    assert re.search(rf"^##+ shiftgauge {verb}$", PAGE, re.M), f"docs/commands.md has no section on {verb}"
    assert f"<!-- command: {verb} -->" in PAGE, f"docs/commands.md does not place the reference of {verb}"


@pytest.mark.parametrize("verb", [verb for verb in VERBS if not verb.startswith("bench ")])
def test_every_verb_has_an_example_that_is_run(verb):
    run = "\n".join(b.text for page in pages() for b in blocks(page) if b.language in ("sh", "console"))
    assert re.search(rf"shiftgauge {verb}\b", run), f"no example of shiftgauge {verb}"


@pytest.mark.parametrize("verb", VERBS)
def test_the_reference_names_every_option(verb):
    text = hooks.reference(verb)
    for parameter in VERBS[verb].params:
        if getattr(parameter, "hidden", False):  # an old word, still understood
            continue
        if getattr(parameter, "hidden", False):  # an old word, still accepted
            continue
        if parameter.param_type_name == "option":
            assert f"`{max(parameter.opts, key=len)}`" in text
        else:
            assert parameter.name.upper() in text
    assert all(line.count("|") - line.count("\\|") in (0, 3, 4) for line in text.splitlines())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_speaks_json(verb):
    names = {name for parameter in VERBS[verb].params for name in getattr(parameter, "opts", ())}
    assert names & {"--json", "--format"}


def test_every_documented_verb_exists():
    assert set(hooks.MARK.findall(PAGE)) == set(VERBS)


def test_marks_are_replaced():
    made = hooks.on_page_markdown(PAGE)
    assert "<!-- command: estimate" not in made
    assert "`--fail-above`" in made
