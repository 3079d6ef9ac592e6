"""Helpers of all routes: bodies within their limit, times in the query, the store and the committer."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from anyio import to_thread
from fastapi import Depends, Path, Query, Request
from pydantic import ValidationError

from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.ingest.bodies import JSON, RequestLimits, decompress, read_json, too_large
from shiftgauge.monitor.ingest.commit import Committer
from shiftgauge.monitor.periods import parse_time
from shiftgauge.monitor.problems import MEDIA_TYPE, ApiProblem, invalid
from shiftgauge.monitor.records import ProblemBody, Record, explain
from shiftgauge.monitor.settings import Settings

_KEY = re.compile(r"[\x21-\x7e]{1,200}")
#: So many bodies are unpacked and checked at the same time; the others wait.
READERS = 4
T = TypeVar("T")
R = TypeVar("R", bound=Record)
#: The number of an alert, as far as the database can count.
AlertNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]
#: That of a revision or a change, likewise.
Number = Annotated[int | None, Query(ge=1, le=2**31 - 1)]
REF = "#/components/schemas/{model}"
#: What OpenAPI says of every route's problems.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A problem (RFC 9457)",
        "content": {MEDIA_TYPE: {"schema": {"$ref": REF.format(model=ProblemBody.__name__)}}},
    }
}


def store_of(request: Request) -> Store:
    """The store."""
    store: Store = request.app.state.store
    return store


def committer_of(request: Request) -> Committer:
    """The committer."""
    committer: Committer = request.app.state.committer
    return committer


def limits_of(request: Request) -> RequestLimits:
    """How much one request may bring."""
    limits: RequestLimits = request.app.state.limits
    return limits


async def read_body(request: Request) -> bytes:
    """The whole body, still packed; stops as soon as it is too large."""
    most = limits_of(request).body
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise too_large(f"a body of more than {most:,} bytes", most)
        parts.append(part)
    return b"".join(parts)


#: The body of a route that runs in a thread; declared after the caller, so that it is read once they may send one.
Body = Annotated[bytes, Depends(read_body)]


async def run_in_reader(request: Request, work: Callable[[], T]) -> T:
    """Unpack and check a body in a thread, a few at a time: each may take hundreds of megabytes."""
    return await to_thread.run_sync(work, limiter=request.app.state.readers)


def plain_body(request: Request, body: bytes) -> bytes:
    """The body without its Content-Encoding."""
    return decompress(body, request.headers.get("content-encoding"), 4 * limits_of(request).body)


def idempotency(request: Request, body: bytes) -> tuple[str | None, str]:
    """Keyed hashes of the Idempotency-Key, if any, with the route it belongs to, and of the body."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None, ""
    if not _KEY.fullmatch(key):
        raise invalid("Idempotency-Key: wanted 1 to 200 printable characters without spaces")
    route = request.url.path.rpartition("/")[2]
    secret = store_of(request).secret  # either may hold an id
    digests = [hmac.digest(secret, text, "sha256").hex() for text in (f"{route} {key}".encode(), body)]
    return digests[0], digests[1]


def query_time(text: str | None, name: str) -> int | None:
    """A time from the address; `+` of a zone arrives as a space there."""
    if text is None:
        return None
    try:
        return parse_time(text.replace(" ", "+"), 0)
    except ApiProblem as problem:
        raise invalid(f"{name}={text[:60]!r}: {problem.detail.removeprefix('row 0: ')}") from None


def read_record(request: Request, body: bytes, kind: type[R]) -> R:
    """A JSON body as a record."""
    try:
        return kind.model_validate(read_json(plain_body(request, body), limits_of(request)))
    except ValidationError as error:
        raise explain(error, "the body", {"": list(kind.model_fields)}) from None


#: Records that are read from bodies, by their names in the OpenAPI.
_bodies: dict[str, type[Record]] = {}


def body_schema(kind: type[Record], *binary: str, example: Any) -> dict[str, Any]:
    """What OpenAPI says of a body that is read as bytes: JSON of this form, or these media types."""
    name = kind.__name__ if kind is not Settings else "SettingsChange"
    _bodies[name] = kind
    content: dict[str, Any] = {JSON: {"schema": {"$ref": REF.format(model=name)}, "example": example}}
    content |= {media: {"schema": {"type": "string", "format": "binary"}} for media in binary}
    return {"requestBody": {"required": True, "content": content}}


def body_schemas() -> dict[str, Any]:
    """The forms of bodies and problems, for the components of the OpenAPI.

    Defaults are left out: what a body leaves out stays as it is. The parts of settings are `AlertLimitsChange` and
    `WebhookChange`, since responses have forms of the same names.
    """
    out = {ProblemBody.__name__: ProblemBody.model_json_schema(mode="serialization", ref_template=REF)}
    for name, kind in _bodies.items():
        inner = REF if kind is not Settings else REF + "Change"
        schema = _without_defaults(kind.model_json_schema(ref_template=inner))
        for part, form in schema.pop("$defs", {}).items():
            title = inner.format(model=part).rpartition("/")[2]
            out[title] = form | {"title": title}
        out[name] = schema | {"title": name}
    return out


def _without_defaults(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _without_defaults(value) for name, value in schema.items() if name != "default"}
    return [_without_defaults(value) for value in schema] if isinstance(schema, list) else schema
