"""Words of the command that have changed: the old ones still work, with a note on stderr."""

from __future__ import annotations

from typing import TypeVar

import typer

from labelfree.errors import InputError

T = TypeVar("T")


def now_called(old: str, new: str, old_value: T | None, new_value: T | None) -> T | None:
    """The value of an option that may have been given by its old name."""
    if not old_value:
        return new_value
    if new_value:
        raise InputError(f"{old} is the old word for {new}; wanted one of the two")
    typer.echo(f"labelfree: {old} is now called {new}", err=True)
    return old_value


def unlike(names: list[str] | None, option: str) -> list[str]:
    """The names, each given only once."""
    twice = next((name for name in names or [] if (names or []).count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{option} {twice}: it was given twice; wanted different columns")
    return list(names or [])
