"""The settings page: a form with values as people write them, read back into settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from shiftgauge.monitor.alerts.rules import metric_title
from shiftgauge.monitor.api.requests import read_body, store_of
from shiftgauge.monitor.api.security import Caller, Reader, require_scope
from shiftgauge.monitor.db.models import get_settings, put_settings
from shiftgauge.monitor.pages.format import model_path
from shiftgauge.monitor.pages.render import PageRoute, page
from shiftgauge.monitor.periods import LENGTHS
from shiftgauge.monitor.problems import ApiProblem, conflict, invalid
from shiftgauge.monitor.settings import METHOD_NAMES, METRICS, SHAPES, Settings, split_metric
from shiftgauge.monitor.views.overview import get_model, suggest_limits


@dataclass(frozen=True)
class Field:
    """A field of the form.

    Attributes:
        name: in the form; `limits.error` for what stands in the limits, `limits.metrics.f1` for those on a metric.
        label, help: what people read.
        kind: `text`, `number` (a unit may follow), `percent`, `url`, `choice`, `secret`.
        unit: what follows a number.
        choices: of a choice.
    """

    name: str
    label: str
    kind: str = "text"
    help: str = ""
    unit: str = ""
    choices: tuple[str, ...] = ()


#: The fields under their headings; limits on metrics and notification services follow from the settings.
LIMITS, NOTIFICATIONS = "Alert limits", "Notifications"
GROUPS: dict[str, tuple[Field, ...]] = {
    "Windows": (
        Field("window", "Window", help=f"{', '.join(LENGTHS)} (all UTC), or a number such as 1000 rows"),
        Field("lateness_minutes", "Lateness", "number", "how long a window waits for late rows", "minutes"),
        Field("segments", "Segments", help="names of segments to estimate, separated by commas"),
    ),
    "Estimate": (
        Field("method", "Method", "choice", "whose estimate is shown", choices=METHOD_NAMES),
        Field("level", "Level", "percent", "of all ranges", "%"),
        Field(
            "metrics",
            "Metrics",
            help=f"beside the error, separated by commas: {', '.join(METRICS)}, or that of a class: recall:NAME",
        ),
        Field(
            "labels_are_random",
            "Labels are random",
            "choice",
            "yes if rows get labels at random, not because of what happened to them; then all labels narrow the range",
            choices=("no", "yes"),
        ),
        Field("replicates", "Replicates", "number", "of the bootstrap: segments, named methods, the report"),
    ),
    LIMITS: (
        Field("limits.error", "Error", "percent", "the estimate less its sampling part lies above this", "%"),
        Field("limits.rise", "Rise", "percent", "it lies this far above the source's error", "points"),
        Field("limits.width", "Width of the range", "percent", "the range is wider than this", "points"),
        Field("limits.silence_hours", "Silence", "number", "no row has arrived for so long", "hours"),
        Field(
            "limits.not_estimated_hours", "Not estimated", "number", "a window is overdue by this", "hours"
        ),
        Field("limits.windows", "Windows in a row", "number", "beyond a limit to fire, within to resolve"),
    ),
    NOTIFICATIONS: (
        Field("notify.name", "New service", help="a name for it, such as ml-team"),
        Field(
            "notify.url",
            "Its URL",
            "secret",
            "of apprise, such as slack://... or mailto://...; never shown again",
        ),
    ),
    "Webhook": (
        Field("webhook.url", "Address", "url", "https://...; empty for none"),
        Field("webhook.shape", "Shape", "choice", "of the message", choices=SHAPES),
        Field(
            "webhook.secret",
            "Secret",
            "secret",
            "whsec_ and base64 of 24 to 64 bytes; never shown, empty keeps it",
        ),
    ),
    "Retention": (Field("retention_days", "Rows are erased after", "number", "empty keeps them", "days"),),
}
ON_METRICS = "limits.metrics."


def field_groups(settings: Settings) -> dict[str, tuple[Field, ...]]:
    """The fields under their headings, with a limit for each metric."""
    on_metrics = tuple(
        Field(
            ON_METRICS + name,
            metric_title(name)[:1].upper() + metric_title(name)[1:],
            "percent",
            f"fires {METRICS[split_metric(name)[0]]} this, by more than its sampling part",
            "%",
        )
        for name in settings.estimated_metrics()
    )
    limits = GROUPS[LIMITS]
    return {**GROUPS, LIMITS: (*limits[:2], *on_metrics, *limits[2:])}


def form_fields(settings: Settings) -> list[Field]:
    """All fields."""
    return [field for group in field_groups(settings).values() for field in group]


def form_texts(settings: Settings) -> dict[str, str]:
    """The settings as the form shows them, by field; secrets are always empty."""
    fields = form_fields(settings)
    return {field.name: _field_text(field, _setting_value(settings, field.name)) for field in fields}


def _setting_value(settings: Settings, name: str) -> Any:
    if name.startswith(ON_METRICS):
        return settings.limits.metrics.get(name.removeprefix(ON_METRICS))
    if name.startswith("notify."):
        return None
    group, _, inner = name.rpartition(".")
    owner = getattr(settings, group) if group else settings
    return None if owner is None else getattr(owner, inner)


def _field_text(field: Field, value: Any) -> str:
    if value is None or field.kind == "secret":
        return ""
    if field.kind == "percent":
        return f"{100 * value:.10g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def fingerprint(settings: Settings) -> str:
    """Tells whether settings were changed since a form showed them."""
    text = json.dumps(settings.to_dict(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_form(form: Mapping[str, str], settings: Settings) -> dict[str, Any]:
    """What the form changes, as `put_settings` takes it; refuses a form that shows settings of before.

    Args:
        form: texts by field; a field that is not there stays as it is.
        settings: as they are now.
    """
    if form.get("was") != fingerprint(settings):
        raise conflict(
            "these settings were changed since this form was opened; look at them again, then save"
        )
    before, out = form_texts(settings), dict[str, Any]()
    for field in form_fields(settings):
        text = form.get(field.name, before[field.name]).strip()
        if field.name.startswith("notify.") or (text == before[field.name] and field.kind != "secret"):
            continue
        if field.kind == "secret" and not text and "webhook.unsigned" not in form:
            continue
        value = _read_field(field, text)
        if field.name.startswith(ON_METRICS):
            metric = field.name.removeprefix(ON_METRICS)
            out.setdefault("limits", {}).setdefault("metrics", {})[metric] = value
            continue
        group, _, name = field.name.rpartition(".")
        (out.setdefault(group, {}) if group else out)[name] = value
    if not form.get("webhook.url", before["webhook.url"]).strip():
        out.pop("webhook", None)
        if settings.webhook is not None:
            out["webhook"] = None
    return out | _read_services(form, settings)


def _read_services(form: Mapping[str, str], settings: Settings) -> dict[str, Any]:
    """The notification services, where one was added or removed."""
    kept: list[dict[str, str]] = [
        {"name": one.name} for one in settings.notify if f"notify.remove.{one.name}" not in form
    ]
    new = {name: form.get(f"notify.{name}", "").strip() for name in ("name", "url")}
    added = [new] if any(new.values()) else []
    return {"notify": kept + added} if added or len(kept) < len(settings.notify) else {}


def _read_field(field: Field, text: str) -> Any:
    if field.choices == ("no", "yes"):
        return text == "yes"
    if field.name in ("segments", "metrics"):
        return [name.strip() for name in text.split(",") if name.strip()]
    if field.kind not in ("number", "percent"):
        return text
    if not text:
        return None
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        raise invalid(f"{field.label} {text[:40]!r}: wanted a number, such as 20 or 2.5") from None
    if field.kind == "percent":
        # Through text, so that 20 % is 0.2 and not its neighbour.
        return float(f"{number / 100:.12g}")
    return int(number) if number.is_integer() else number


router = APIRouter(prefix="/models/{model}/settings", route_class=PageRoute, include_in_schema=False)
#: A form has some twenty fields.
MOST_FIELDS = 100


@router.get("")
def settings_page(request: Request, model: str, caller: Reader) -> Response:
    """The settings, as a form where the caller may change them."""
    get_model(store_of(request), model)
    return _settings_response(request, model, caller)


@router.post("", dependencies=[require_scope("admin")])
async def save_settings(request: Request, model: str, caller: Reader) -> Response:
    """Change what the form changed; a problem is shown above the form, which keeps what was typed."""
    body = await read_body(request)
    return await run_in_threadpool(_save, request, model, caller, body)


def _save(request: Request, model: str, caller: Caller, body: bytes) -> Response:
    store = store_of(request)
    get_model(store, model)
    form = parse_form(body)
    try:
        given = read_form(form, get_settings(store, model))
        if given:
            put_settings(store, model, given, caller.name)
    except ApiProblem as problem:
        if problem.status not in (409, 422):
            raise
        return _settings_response(request, model, caller, form, problem)
    return RedirectResponse(f"{model_path(model, 'settings')}?saved=1", 303)


def parse_form(body: bytes) -> dict[str, str]:
    """The fields of a posted form."""
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise invalid("the form cannot be read; wanted the one of this page") from None


@router.post("/suggested", dependencies=[require_scope("admin")])
def accept_suggestion(request: Request, model: str, caller: Reader) -> Response:
    """Set the limits that follow from the source's error, unless the error has one by now."""
    store = store_of(request)
    suggested = suggest_limits(get_model(store, model))
    if suggested is not None and not get_settings(store, model).limits.on_error:
        put_settings(store, model, {"limits": suggested.limits}, caller.name)
    return RedirectResponse(f"{model_path(model, 'settings')}?saved=1", 303)


def _settings_response(
    request: Request,
    model: str,
    caller: Caller,
    typed: dict[str, str] | None = None,
    problem: ApiProblem | None = None,
) -> Response:
    store = store_of(request)
    settings = get_settings(store, model)
    # After a conflict the form shows what holds now: what was typed would undo somebody else's change.
    kept = typed if problem is not None and problem.status != 409 else None
    secrets = {field.name for field in form_fields(settings) if field.kind == "secret"}
    texts = form_texts(settings) | {k: v for k, v in (kept or {}).items() if k not in secrets}
    return page(
        "settings.html.j2",
        200 if problem is None else problem.status,
        model=model,
        groups=field_groups(settings),
        texts=texts,
        settings=settings,
        suggested=None if settings.limits.on_error else suggest_limits(get_model(store, model)),
        was=fingerprint(settings),
        signed=settings.webhook is not None and bool(settings.webhook.secret),
        may_change=caller.may("admin", model),
        problem=problem,
        saved="saved" in request.query_params and problem is None,
    )
