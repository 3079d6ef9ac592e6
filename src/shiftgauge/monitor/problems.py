"""Problems that a caller can read and act upon (RFC 9457), and the check of names that people give."""

from __future__ import annotations

import re
from typing import Any

from shiftgauge.errors import ShiftgaugeError, nearest

#: What is served with a problem: RFC 9457, Problem Details for HTTP APIs.
MEDIA_TYPE = "application/problem+json"


class ApiProblem(ShiftgaugeError):  # noqa: N818 (the word of RFC 9457)
    """Something the caller can read and act upon; `status` is the HTTP status, `more` extends the body.

    `fields` says what is wrong with each field, for a form that shows it there.

    >>> ApiProblem(404, "unknown-model", "model 'a' is not known").body()["type"]
    'urn:shiftgauge:problem:unknown-model'
    """

    def __init__(
        self, status: int, kind: str, detail: str, *, fields: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.fields = fields or {}
        self.status, self.kind, self.detail, self.more = status, kind, detail, more

    def body(self) -> dict[str, Any]:
        """The problem as the JSON object of RFC 9457."""
        return {
            "type": f"{TYPES}{self.kind}",
            "title": self.kind.replace("-", " ").capitalize(),
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }

    def headers(self) -> dict[str, str]:
        """The headers of a response with this problem."""
        if self.status == 401:
            return {
                "www-authenticate": 'Basic realm="shiftgauge", charset="UTF-8", Bearer realm="shiftgauge"'
            }
        return {"retry-after": "1"} if self.status == 503 else {}


TYPES = "urn:shiftgauge:problem:"


def unknown(what: str, name: str, known: list[str]) -> ApiProblem:
    """404, with the name that was probably meant."""
    hint = nearest(name, known) or (f"; known are {', '.join(known[:5])}" if known else "; there is none yet")
    return ApiProblem(404, f"unknown-{what}", f"{what} {name!r} is not known{hint}")


def invalid(detail: str, **more: Any) -> ApiProblem:
    """422: the request was understood, its content cannot be used."""
    return ApiProblem(422, "invalid-content", detail, **more)


def conflict(detail: str, **more: Any) -> ApiProblem:
    """409: it contradicts what is stored."""
    return ApiProblem(409, "conflict", detail, **more)


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
