"""Phrases and identifiers that a reader from the field would not understand are searched for."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PHRASES = (
    r"at the door",
    r"(bring|brings|brought|come|comes|came) home",
    r"(came|come|comes) by mail",
    r"nothing beside",
    r"next to nothing",
    r"counts as nothing",
    r"has not the",
    r"is no class of",
    r"our fault",
    r"when to shout",
    r"reali[sz]ed error",
    r"learning band",
    r"cry wolf",
    r"misses by \d",
)
#: Names that nothing may be bound to, with or without leading underscores.
IDENTIFIERS = {
    "ascribed", "bag", "Belief", "bids", "blunt", "Book", "carried", "Collected", "Counted", "crew", "Cut", "DEAR",
    "dishonest", "door", "doubt", "FAMILIAR", "facing", "handed", "Handed", "Held", "home", "honest", "HONEST",
    "landed", "lockstep", "LUCID", "meant", "NEXT_TO_NOTHING", "novelty", "PATIENCE", "Pile", "Ranked", "rehearsal",
    "remark", "seal", "shelf", "shelves", "Spread", "strange", "taken", "tilt", "timid", "told", "unlike", "verb",
    "verdict", "weighed", "WILD", "WORLDS",
}  # fmt: skip


#: Words that no test is named by.
WORDS = {"meant", "told"}


def searched():
    """Every page, module, template, script, example and benchmark."""
    modules = [
        file for folder in ("src", "scripts", "examples", "benchmarks") for file in (ROOT / folder).rglob("*")
    ]
    files = [*modules, *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    known = (".py", ".j2", ".md")
    return sorted(
        file for file in files if file.suffix in known or (file.parent.name == "scripts" and file.is_file())
    )


def named_tests():
    """The names of the test modules and of their tests."""
    for file in (ROOT / "tests").rglob("*.py"):
        yield file, file.stem
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield file, node.name


def bound_names(tree):
    """Every name that a module binds: variables, attributes, arguments, functions, classes; with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_page_or_module_contains_the_phrase(phrase):
    pattern = re.compile(rf"\b{phrase}\b".replace(" ", r"[\s#]+"), re.IGNORECASE)
    hits = []
    for file in searched():
        text = file.read_text(encoding="utf-8")
        hits += [
            f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, hit.start()) + 1}"
            for hit in pattern.finditer(text)
        ]
    assert hits == []


def test_no_module_binds_one_of_the_names():
    hits = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in searched()
        if file.suffix == ".py"
        for name, line in bound_names(ast.parse(file.read_text(encoding="utf-8")))
        if name.lstrip("_") in IDENTIFIERS
    ]
    assert hits == []


def test_no_test_is_named_by_one_of_the_words():
    hits = [
        f"{file.relative_to(ROOT)}: {name}" for file, name in named_tests() if WORDS & set(name.split("_"))
    ]
    assert hits == []


def test_the_search_finds_what_it_looks_for():
    names = {name for name, _ in bound_names(ast.parse("def told(meant):\n    self._door = taken = 1\n"))}
    assert {"told", "meant", "_door", "taken"} <= names
    assert {file.name for file in searched()} >= {
        "README.md",
        "architecture.md",
        "samples.py",
        "window.html.j2",
        "mutate.py",
        "check_release",
        "nightly.py",
    }
    assert "test_words" in {name for _, name in named_tests()}
