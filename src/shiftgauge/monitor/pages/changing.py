"""Settings as a page: read by everybody who may read, changed by those who may change."""

from __future__ import annotations

from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from shiftgauge.monitor.http.asking import read_body, store_of
from shiftgauge.monitor.http.security import Caller, Reader, need
from shiftgauge.monitor.pages import forms
from shiftgauge.monitor.pages.one_model import source_error
from shiftgauge.monitor.pages.render import page
from shiftgauge.monitor.pages.route import PageRoute
from shiftgauge.monitor.pages.words import model_path
from shiftgauge.monitor.problems import Problem, invalid
from shiftgauge.monitor.service.models import get_model
from shiftgauge.monitor.service.settings import get_settings, put_settings

router = APIRouter(prefix="/models/{model}/settings", route_class=PageRoute, include_in_schema=False)
#: A form has some twenty fields.
MOST_FIELDS = 100


@router.get("")
def settings_page(request: Request, model: str, caller: Reader) -> Response:
    """The settings, as a form where the caller may change them."""
    get_model(store_of(request), model)
    return _page(request, model, caller)


@router.post("", dependencies=[need("admin")])
async def save_settings(request: Request, model: str, caller: Reader) -> Response:
    """Change what the form changed; what cannot be used is said above the form, which keeps what was typed."""
    body = await read_body(request)
    return await run_in_threadpool(_save, request, model, caller, body)


def _save(request: Request, model: str, caller: Caller, body: bytes) -> Response:
    store = store_of(request)
    get_model(store, model)
    form = _form(body)
    try:
        given = forms.read_form(form, get_settings(store, model))
        if given:
            put_settings(store, model, given)
    except Problem as problem:
        if problem.status not in (409, 422):
            raise
        return _page(request, model, caller, form, problem)
    return RedirectResponse(f"{model_path(model, 'settings')}?saved=1", 303)


def _form(body: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise invalid("the form cannot be read; wanted the one of this page") from None


def _page(
    request: Request,
    model: str,
    caller: Caller,
    typed: dict[str, str] | None = None,
    problem: Problem | None = None,
) -> Response:
    store = store_of(request)
    settings = get_settings(store, model)
    # After a conflict the form shows what holds now: what was typed would undo somebody else's change.
    kept = typed if problem is not None and problem.status != 409 else None
    texts = forms.shown(settings) | {k: v for k, v in (kept or {}).items() if k != "webhook.secret"}
    offer = not settings.limits.on_error
    if offer and typed is None and "suggest" in request.query_params:
        texts["limits.rise"] = str(forms.SUGGESTED)
    return page(
        "settings.html.j2",
        200 if problem is None else problem.status,
        model=model,
        groups=forms.groups(),
        texts=texts,
        source_error=source_error(get_model(store, model)),
        suggested=forms.SUGGESTED,
        offer=offer,
        was=forms.fingerprint(settings),
        signed=settings.webhook is not None and bool(settings.webhook.secret),
        may_change=caller.may("admin", model),
        locked=caller.token is not None,
        problem=problem,
        saved="saved" in request.query_params and problem is None,
    )
