"""Words of the command that have changed: the old ones still work, with a note on stderr."""

from __future__ import annotations

import re
from typing import TypeVar

import typer

from shiftgauge.errors import InputError

T = TypeVar("T")


def now_called(old: str, new: str, old_value: T | None, new_value: T | None) -> T | None:
    """The value of an option that may have been given by its old name."""
    if not old_value:
        return new_value
    if new_value:
        raise InputError(f"{old} is the old word for {new}; wanted one of the two")
    note(f"{old} is now called {new}")
    return old_value


def note(text: str) -> None:
    """A line on stderr that changes nothing."""
    typer.echo(f"shiftgauge: {text}", err=True)


def unlike(names: list[str] | None, option: str) -> list[str]:
    """The names, each given only once."""
    twice = next((name for name in names or [] if (names or []).count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{option} {twice}: it was given twice; wanted different columns")
    return list(names or [])


#: Arguments of the library that the command knows by the same word, with dashes.
SHARED = (
    "marginal",
    "calibration",
    "groups",
    "source_groups",
    "second",
    "by",
    "time",
    "level",
    "replicates",
    "count",
)
_ARGUMENT = re.compile(rf"\b({'|'.join(SHARED)})=(?:'([^']*)')?(?!\w)")


def spoken(text: str) -> str:
    """What the library says in Python's words, in those of the command.

    >>> spoken("use marginal='shrunk', or pass groups=; gde needs one (second=, --second)")
    'use --marginal shrunk, or pass --groups; gde needs one (--second)'
    """
    said = re.sub(r"\b\w+=, (?=--)", "", text)
    return type(text)(_ARGUMENT.sub(lambda f: f"--{f[1].replace('_', '-')} {f[2] or ''}".rstrip(), said))
