"""Names that people give: models, versions, segments; short, printable, and nothing a path could be made of."""

from __future__ import annotations

import re

from shiftgauge.monitor.problems import invalid

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Segment values are data, not names: any text, but short and without control characters.
LONGEST_VALUE = 200


def check_name(text: object, what: str) -> str:
    """A model's, version's or segment's name.

    >>> check_name("fraud-v2.1", "model")
    'fraud-v2.1'
    """
    if not isinstance(text, str) or not NAME.fullmatch(text):
        raise invalid(
            f"{what} name {str(text)[:60]!r}: wanted 1 to 100 letters, digits, dots, dashes or underscores, "
            "beginning with a letter or digit"
        )
    return text
