"""One request to a monitor: what came back, or whether to try again."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from shiftgauge.errors import InputError

ARROW = "application/vnd.apache.arrow.stream"
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Reply:
    """What a monitor said.

    Attributes:
        status: of HTTP; 0 where nobody answered.
        body: the JSON, or `{"detail": ...}`.
    """

    status: int
    body: dict[str, Any]

    @property
    def good(self) -> bool:
        """It has what was sent."""
        return 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """It will never take this: not a matter of time, of a token, or of a model that is still to be made."""
        return self.status in (400, 409, 413, 415, 422)

    @property
    def detail(self) -> str:
        """One line."""
        return str(self.body.get("detail", self.body))


def address(url: str, *parts: str) -> str:
    """The URL of a route; refuses what is not a web address.

    >>> address("http://localhost:8123/", "models", "m", "labels")
    'http://localhost:8123/v1/models/m/labels'
    """
    try:
        pieces = urlsplit(url)
        good = isinstance(url, str) and url.isascii() and url.isprintable() and " " not in url
    except (ValueError, TypeError, AttributeError):
        good = False
    if not good or pieces.scheme not in ("http", "https") or not pieces.hostname:
        raise InputError(f"monitor {url!r}: wanted an address such as http://127.0.0.1:8123")
    return "/".join([url.rstrip("/"), "v1", *(quote(part, safe="") for part in parts)])


def send(method: str, url: str, body: bytes, token: str | None, kind: str = ARROW) -> Reply:
    """Send one request; never raises for what the other side does."""
    headers = {"content-type": kind}
    if token:
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return Reply(answer.status, _json(answer.read()))
    except urllib.error.HTTPError as problem:
        with problem:
            return Reply(problem.code, _json(problem.read()))
    except (TimeoutError, urllib.error.URLError, http.client.HTTPException, OSError) as problem:
        return Reply(0, {"detail": f"the monitor at {url} does not answer ({problem})"})


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = body[:200].decode("utf-8", "replace")
    return value if isinstance(value, dict) else {"detail": value}
