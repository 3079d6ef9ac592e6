"""A route whose problems are pages too: a person who follows a dead link reads a sentence, not JSON."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from shiftgauge.monitor.pages.render import problem_page
from shiftgauge.monitor.problems import Problem


class PageRoute(APIRoute):
    """Answers problems with a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of FastAPI, with problems caught."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except Problem as problem:
                return await run_in_threadpool(problem_page, problem)

        return handle
