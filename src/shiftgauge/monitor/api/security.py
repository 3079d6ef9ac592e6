"""Authentication by token and scope, checks of the Host and Origin headers, and security headers."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shiftgauge.errors import printable
from shiftgauge.monitor.db.audit import LOCAL
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.db.tokens import TokenView, any_tokens, check_token, forbidden
from shiftgauge.monitor.problems import ApiProblem

access = logging.getLogger("shiftgauge.monitor.access")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
#: Where a request's scope has the name of its token, for the access log.
CALLER = "shiftgauge.caller"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
#: Whether tokens are needed is looked up this often, in seconds.
TOKEN_CHECK_SECONDS = 1.0
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Caller:
    """Who is calling; `token` is None where no tokens are needed (then everything is allowed)."""

    token: TokenView | None

    def may(self, scope: str, model: str | None) -> bool:
        """Whether the caller has this scope on the model (None: on all of them)."""
        return self.token is None or self.token.allows(scope, model)

    @property
    def name(self) -> str:
        """For the audit log."""
        return LOCAL if self.token is None else self.token.name

    def models(self) -> list[str] | None:
        """The only models that the caller may see; None for all."""
        return None if self.token is None or self.token.model is None else [self.token.model]


class Authenticator:
    """Whether tokens are needed, looked up at most once a second."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._until, self._closed = 0.0, True

    async def closed(self) -> bool:
        """True once a token was ever made."""
        if time.monotonic() > self._until:
            self._closed = await run_in_threadpool(any_tokens, self.store)
            self._until = time.monotonic() + TOKEN_CHECK_SECONDS
        return self._closed

    async def caller(self, authorization: str | None) -> Caller:
        """The caller by its Authorization header; raises 401."""
        if not await self.closed():
            return Caller(None)
        token = await run_in_threadpool(check_token, self.store, _secret(authorization or ""))
        if token is None:
            raise ApiProblem(
                401,
                "unauthorized",
                "wanted a token: Authorization: Bearer sgm_... (a browser asks for it as the password, any name)",
            )
        return Caller(token)


def _secret(header: str) -> str:
    """The token in a Bearer header, or the password of a Basic one (what a browser can send by itself)."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return ""


def require_scope(scope: str) -> Any:
    """A dependency: the caller, who must have this scope on the model that the address names.

    An address without a model needs it on any: what the caller then sees is up to `Caller.models`.
    """

    async def check(request: Request) -> Caller:
        authenticator: Authenticator = request.app.state.authenticator
        caller: Caller = await authenticator.caller(request.headers.get("authorization"))
        request.scope[CALLER] = caller.name
        model = request.path_params.get("model")
        if model is None and caller.token is not None:
            model = caller.token.model
        if not caller.may(scope, model):
            raise forbidden(scope, model)
        return caller

    return Depends(check)


#: A caller who may change a model's settings, sources and alerts.
Admin = Annotated[Caller, require_scope("admin")]
#: A caller who may send data.
Sender = Annotated[Caller, require_scope("ingest")]
#: A caller who may read; for routes that need to know what else they may see.
Reader = Annotated[Caller, require_scope("read")]


class SecurityMiddleware:
    """Middleware: refuses foreign Host and Origin headers, gives every answer its safety headers, and logs it."""

    def __init__(
        self, app: ASGIApp, authenticator: Authenticator, refuse: Callable[[ApiProblem], ASGIApp]
    ) -> None:
        self.app, self.authenticator, self.refuse = app, authenticator, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        app = self.app
        problem = await self._problem(scope)
        if problem is not None:
            app = self.refuse(problem)
        began, status = time.monotonic(), [0]
        try:
            await app(scope, receive, _with_headers(send, status))
        finally:
            _log_access(scope, status[0], time.monotonic() - began)

    async def _problem(self, scope: Scope) -> ApiProblem | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        try:
            is_open = not await self.authenticator.closed()
        except ApiProblem as problem:
            return None if scope["path"] == "/healthz" else problem
        if is_open and _name(host) not in LOOPBACK:
            # A page elsewhere can make its name point at this machine: only our own names are answered.
            return ApiProblem(
                421, "wrong-host", f"Host {host[:100]!r}: without tokens only localhost is answered"
            )
        if scope["method"] not in SAFE_METHODS and _is_cross_origin(headers, scope["scheme"], host):
            return ApiProblem(
                403, "foreign-origin", "this request was made by a page of another site; refused"
            )
        return None


def _name(host: str) -> str:
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.partition(":")[0].lower()


def _is_cross_origin(headers: Headers, scheme: str, host: str) -> bool:
    """Whether a page of another origin made the request: another scheme, host or port."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    if "origin" not in headers:
        return False
    origin = _origin(headers["origin"])
    return origin is None or origin != _origin(f"{scheme}://{host}")


def _origin(text: str) -> tuple[str, str, int | None] | None:
    """Scheme, host and port, the usual port where none is given; None for what is not an origin, such as `null`."""
    try:
        parts = urlsplit(text)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        return (parts.scheme, parts.hostname or "", port) if parts.hostname else None
    except ValueError:
        return None


def _log_access(scope: Scope, status: int, seconds: float) -> None:
    """One line per request: no query and no header, which hold ids and tokens, and no path that we do not serve."""
    if scope["path"] in ("/healthz", "/readyz") and status == 200:
        return
    client = scope["client"][0] if scope.get("client") else "-"
    name = printable(scope.get(CALLER, "-"))
    path = printable(scope["path"]) if "route" in scope else "(unknown path)"
    method = printable(scope["method"])
    access.info("%s %s %s %s %s %.0f ms", client, name, method, path, status, 1000 * seconds)


def _with_headers(send: Send, status: list[int]) -> Callable[[Message], Awaitable[None]]:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            status[0] = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped
