"""The ASGI application: routes of the API and of the pages, and problems as responses."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio import CapacityLimiter
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from shiftgauge._version import __version__
from shiftgauge.errors import InputError
from shiftgauge.monitor.api import data_in, data_out
from shiftgauge.monitor.api.requests import READERS, body_schemas
from shiftgauge.monitor.api.security import Authenticator, SecurityMiddleware
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.ingest.bodies import RequestLimits
from shiftgauge.monitor.ingest.commit import Committer
from shiftgauge.monitor.pages import routes, settings_page
from shiftgauge.monitor.problems import MEDIA_TYPE, ApiProblem, invalid

log = logging.getLogger("shiftgauge.monitor")


def create_app(store: Store, limits: RequestLimits | None = None) -> FastAPI:
    """The monitor as an ASGI application."""
    committer = Committer(store)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        committer.close()

    app = FastAPI(
        title="shiftgauge monitor",
        version=__version__,
        description="Estimates of how wrong deployed classifiers are, by window, with the labels that come late.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
    )
    _describe_bodies(app)
    app.state.store, app.state.committer, app.state.limits = store, committer, limits or RequestLimits()
    app.state.authenticator = Authenticator(store)
    app.state.readers = CapacityLimiter(READERS)
    app.include_router(data_in.router)
    app.include_router(data_out.router)
    app.include_router(data_out.health)
    app.include_router(routes.router)
    app.include_router(settings_page.router)
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.add_middleware(SecurityMiddleware, authenticator=app.state.authenticator, refuse=problem_response)
    return app


def _describe_bodies(app: FastAPI) -> None:
    """Add the forms of bodies that routes read themselves to the OpenAPI."""
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        schema = describe()
        schema["components"]["schemas"] |= body_schemas()
        return schema

    app.openapi = openapi  # type: ignore[method-assign]


def problem_response(problem: ApiProblem) -> JSONResponse:
    """A problem as a response (RFC 9457)."""
    return JSONResponse(problem.body(), problem.status, problem.headers(), media_type=MEDIA_TYPE)


async def _problem(_: Request, problem: Any) -> JSONResponse:
    return problem_response(problem)


async def _input(_: Request, problem: Any) -> JSONResponse:
    return problem_response(invalid(str(problem)))


async def _misused(_: Request, problem: Any) -> JSONResponse:
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return problem_response(invalid(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}"))


async def _http(request: Request, problem: Any) -> JSONResponse:
    kind = {404: "not-found", 405: "method-not-allowed"}.get(problem.status_code, "refused")
    detail = (
        f"{request.method} {request.url.path[:200]}: {str(problem.detail).lower()}; see /docs for all routes"
    )
    return problem_response(ApiProblem(problem.status_code, kind, detail))


async def _internal(request: Request, problem: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=problem)
    return problem_response(ApiProblem(500, "internal-error", "Internal error; see the server log."))


_HANDLERS: dict[Any, Any] = {
    ApiProblem: _problem,
    InputError: _input,
    RequestValidationError: _misused,
    HTTPException: _http,
    Exception: _internal,
}
