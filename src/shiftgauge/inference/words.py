"""Arguments that have a new name: the old one is still taken, with a warning that says the new."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from shiftgauge.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator that takes an argument by its old name too: `@renamed(labels="count")`.

    >>> @renamed(old="new")
    ... def twice(*, new): return 2 * new
    >>> twice(new=2)
    4
    """

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return function(*args, **_translated(function.__name__, names, kwargs))

        return call

    return wrap


def _translated(who: str, names: dict[str, str], given: dict[str, Any]) -> dict[str, Any]:
    for old, new in names.items():
        if old in given:
            if new in given:
                raise InputError(f"{who}: {old}= is the old name of {new}=; wanted one of the two")
            warnings.warn(f"{who}: {old}= is now called {new}=", DeprecationWarning, stacklevel=3)
            given[new] = given.pop(old)
    return given
