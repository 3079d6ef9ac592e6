"""What can go wrong, each with what to do about it, and what is said along the way.

Every message says what arrived, what was wanted, and what to try. The command prints it as one line
and leaves with exit code 2; in Python it is the exception's text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any


def printable(text: object, keep: str = "") -> str:
    """The text with whatever could steer a terminal or break a line written out, except what is to be kept.

    Control characters, line ends, direction marks and halves of surrogate pairs come from names that others
    chose: of files, columns and classes.

    >>> printable("day\\r\\x1b[31m.csv")
    'day\\\\r\\\\x1b[31m.csv'
    """
    return "".join(c if " " <= c <= "~" or c in keep else _spelt(c) for c in str(text))


def _spelt(c: str) -> str:
    harmless = unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") and c not in DIRECTIONS
    return c if harmless else c.encode("unicode_escape", "surrogatepass").decode("ascii")


#: Marks that make a terminal or a browser show the letters around them in another order.
DIRECTIONS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


#: Letters that a message may have, and a single word in it.
LONGEST, LONGEST_WORD = 560, 200


def shortened(text: str) -> str:
    """A message of at most 560 letters: of a long name or value, and of a long text, the middle is left out.

    >>> shortened("no column " + 1000 * "x")
    'no column xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxx'
    """
    if len(text) <= LONGEST_WORD:
        return text
    short = re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: f"{word[0][:40]}...{word[0][-20:]}", text)
    return short if len(short) <= LONGEST else f"{short[:380]} ... {short[-170:]}"


class Note(str):
    """A sentence on how data was read: it stands among an answer's warnings, and speaks against nothing."""


def format_warning(text: str, sign: str = "!") -> str:
    """One of an answer's warnings as it is shown: a note by that word, all else behind the sign.

    >>> format_warning("few rows"), format_warning(Note("rounded to 2 decimals"))
    ('! few rows', 'note: rounded to 2 decimals')
    """
    return f"note: {text}" if isinstance(text, Note) else f"{sign} {text}"


def prefix(who: object, text: str) -> str:
    """A warning behind the name of what it is about; a note stays a note."""
    said = f"{who}: {text}"
    return Note(said) if isinstance(text, Note) else said


class ShiftgaugeError(Exception):
    """Anything that shiftgauge refuses to do; its text is one readable line."""

    def __init__(self, text: object = "") -> None:
        super().__init__(shortened(printable(text)))


class InputError(ShiftgaugeError, ValueError):
    """The data or an option cannot be used as given."""


#: Temporary files with the content of streams, and what messages call them.
STREAM_NAMES: dict[str, str] = {}


class FileError(InputError):
    """A file is missing, unreadable, or not in the form it claims to be."""

    def __init__(self, text: object = "") -> None:
        super().__init__(with_stream_names(str(text)))


def with_stream_names(text: str) -> str:
    """The text with temporary files replaced by the names of their streams."""
    for file, name in STREAM_NAMES.items():
        text = text.replace(file, name)
    return text


class NotFittedError(ShiftgaugeError, RuntimeError):
    """`estimate` was called before `fit`."""


class MissingDependencyError(ShiftgaugeError, ImportError):
    """An optional package is needed; the message says how to install it."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant: ``; did you mean 'cott'?`` or nothing.

    >>> nearest("cot2", ["cot", "atc-mc"])
    "; did you mean 'cot'?"
    """
    close = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def format_names(names: Sequence[str]) -> str:
    """The first eight names in a message.

    >>> format_names("abc"), format_names([])
    ('a, b, c', 'none')
    """
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else "none"


def optional(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional third-party module; if it is missing, the error names the extra to install.

    >>> optional("json", extra="dask", purpose="scan: Dask").__name__
    'json'
    """
    try:
        return import_module(module)
    except ImportError:
        raise MissingDependencyError(f"{purpose} needs {module}; {how_to_install(extra)}") from None


def how_to_install(extra: str) -> str:
    """What to type for an extra; right whether or not shiftgauge is on PyPI.

    >>> how_to_install("dask")
    "install the extra: pip install '.[dask]' in a clone of shiftgauge"
    """
    return f"install the extra: pip install '.[{extra}]' in a clone of shiftgauge"
