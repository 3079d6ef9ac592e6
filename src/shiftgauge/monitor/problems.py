"""What the monitor refuses: each a status, a title and one readable line (RFC 9457)."""

from __future__ import annotations

from typing import Any

from shiftgauge.errors import ShiftgaugeError

#: What is served with a problem: RFC 9457, Problem Details for HTTP APIs.
MEDIA_TYPE = "application/problem+json"


class Problem(ShiftgaugeError):  # noqa: N818 (the word of RFC 9457)
    """Something the caller can read and act upon; `status` is the HTTP status, `more` extends the body.

    >>> Problem(404, "unknown-model", "model 'a' is not known").body()["type"]
    'urn:shiftgauge:problem:unknown-model'
    """

    def __init__(self, status: int, kind: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
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


TYPES = "urn:shiftgauge:problem:"


def unknown(what: str, name: str, known: list[str]) -> Problem:
    """404, with the name that was probably meant."""
    from shiftgauge.errors import nearest

    hint = nearest(name, known) or (f"; known are {', '.join(known[:5])}" if known else "; there is none yet")
    return Problem(404, f"unknown-{what}", f"{what} {name!r} is not known{hint}")


def invalid(detail: str, **more: Any) -> Problem:
    """422: the request was understood, its content cannot be used."""
    return Problem(422, "invalid-content", detail, **more)


def conflict(detail: str, **more: Any) -> Problem:
    """409: it contradicts what is already held."""
    return Problem(409, "conflict", detail, **more)
