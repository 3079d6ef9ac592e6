"""What can go wrong, each with what to do about it.

Every message says what arrived, what was wanted, and what to try. The command prints it as one line
and leaves with exit code 2; in Python it is the exception's text.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class LabelfreeError(Exception):
    """Anything that labelfree refuses to do; its text is one readable line."""


class InputError(LabelfreeError, ValueError):
    """The data or an option cannot be used as given."""


class FileError(InputError):
    """A file is missing, unreadable, or not in the form it claims to be."""


class NotFittedError(LabelfreeError, RuntimeError):
    """`estimate` was called before `fit`."""


class MissingDependencyError(LabelfreeError, ImportError):
    """An optional package is needed; the message says how to install it."""


class LabelfreeWarning(UserWarning):
    """The answer stands, but under a condition its reader should know."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant: ``; did you mean 'cott'?`` or nothing.

    >>> nearest("cot2", ["cot", "atc-mc"])
    "; did you mean 'cot'?"
    """
    close = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
