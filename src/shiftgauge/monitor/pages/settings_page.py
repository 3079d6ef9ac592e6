"""The settings page: a form made from the JSON schema of the settings, with values as people write them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from shiftgauge.monitor.alerts.rules import metric_title
from shiftgauge.monitor.api.requests import Body, store_of
from shiftgauge.monitor.api.security import Admin, Caller, Reader
from shiftgauge.monitor.db.models import get_settings, put_settings
from shiftgauge.monitor.pages.format import model_path
from shiftgauge.monitor.pages.render import PageRoute, page
from shiftgauge.monitor.problems import ApiProblem, conflict, invalid
from shiftgauge.monitor.settings import METRICS, Notification, Settings, split_metric
from shiftgauge.monitor.views import get_model, suggest_limits

#: What the form is made of: titles, descriptions, types, ranges and choices of the settings.
SCHEMA = Settings.model_json_schema()
YES_NO = {"yes": True, "no": False}


@dataclass(frozen=True)
class Field:
    """A field of the form.

    Attributes:
        path: where its value stands in the settings, such as `("limits", "metrics", "f1")`.
        group: the heading that it stands under.
        label, help: what people read.
        kind: `text`, `list`, `number` (a unit may follow), `percent`, `url`, `choice`, `secret`.
        unit: what follows a number.
        choices: of a choice.
        wanted: the numbers that are accepted, in words.
    """

    path: tuple[str, ...]
    group: str
    label: str
    help: str
    kind: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    wanted: str = ""

    @property
    def name(self) -> str:
        """In the form, such as `limits.metrics.f1`."""
        return ".".join(self.path)


def form_fields(settings: Settings) -> list[Field]:
    """The fields, in the order of the settings; limits on metrics follow from the metrics that are estimated."""
    return list(_fields_of(SCHEMA, (), "", settings))


def _fields_of(
    schema: Mapping[str, Any], outer: tuple[str, ...], group: str, settings: Settings
) -> Iterator[Field]:
    for name, given in schema["properties"].items():
        part = _resolve(given)
        form, path = part.get("x-form", {}), (*outer, name)
        heading = form.get("group", group)
        record = _resolve(part["items"]) if "items" in part else part
        if "properties" in record:
            yield from _fields_of(record, path, heading, settings)
        elif part["type"] == "object":
            number = {**_resolve(part["additionalProperties"]), "x-form": form}
            for metric in settings.estimated_metrics():
                title, side = metric_title(metric), METRICS[split_metric(metric)[0]]
                words = {
                    "title": title[:1].upper() + title[1:],
                    "description": f"fires {side} this, by more than its sampling part",
                }
                yield _field((*path, metric), heading, number | words)
        else:
            yield _field(path, heading, part)


def _resolve(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A part of the JSON schema with what it refers to; null is left out."""
    inner: Mapping[str, Any] = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), {})
    out = {**inner, **schema}
    return {**SCHEMA["$defs"][out["$ref"].rpartition("/")[2]], **out} if "$ref" in out else out


def _field(path: tuple[str, ...], group: str, schema: Mapping[str, Any]) -> Field:
    form, type_ = schema.get("x-form", {}), schema["type"]
    unit, choices = form.get("unit", ""), form.get("choices") or schema.get("enum", ())
    label, words, wanted = schema["title"], schema.get("description", ""), ""
    kind = "secret" if schema.get("writeOnly") else "url" if schema.get("format") == "uri" else "text"
    if type_ == "boolean":
        kind, choices = "choice", ("no", "yes")
    elif choices:
        kind = "choice"
    elif type_ == "array":
        kind, words = "list", f"{words}; separated by commas"
    elif type_ in ("number", "integer"):
        kind = "percent" if unit in ("%", "points") else "number"
        low, high = (schema[end] * (100 if kind == "percent" else 1) for end in ("minimum", "maximum"))
        number = "whole number" if type_ == "integer" else "number"
        wanted = f"wanted a {number} from {low:.4g} to {high:.6g}"
    if path[0] == "notify":
        label = f"New {label[:1].lower()}{label[1:]}"
    return Field(path, group, label, words, kind, unit, tuple(choices), wanted)


def form_texts(settings: Settings) -> dict[str, str]:
    """The settings as the form shows them, by field; secrets and new services are always empty."""
    values = settings.to_dict()
    return {field.name: _field_text(field, values) for field in form_fields(settings)}


def _field_text(field: Field, values: Any) -> str:
    for name in field.path:
        values = values.get(name) if isinstance(values, dict) else None
    if values is None:
        return ""
    if field.kind == "percent":
        return f"{100 * values:.10g}"
    if isinstance(values, bool):
        return "yes" if values else "no"
    if isinstance(values, list):
        return ", ".join(values)
    return f"{values:.10g}" if isinstance(values, float) else str(values)


def fingerprint(settings: Settings) -> str:
    """Tells whether settings were changed since a form showed them."""
    text = json.dumps(settings.to_dict(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_form(form: Mapping[str, str], settings: Settings) -> dict[str, Any]:
    """What the form changes, as `put_settings` takes it; refuses a form that shows settings of before.

    The settings check what was typed; the problem of what they refuse says in `fields` what is wrong with which.

    Args:
        form: texts by field; a field that is not there stays as it is.
    """
    if form.get("was") != fingerprint(settings):
        raise conflict(
            "these settings were changed since this form was opened; look at them again, then save"
        )
    fields, before, out = form_fields(settings), form_texts(settings), dict[str, Any]()
    for field in fields:
        text = form.get(field.name, before[field.name]).strip()
        unsigned = field.kind == "secret" and "webhook.unsigned" in form
        if field.path[0] == "notify" or (text == before[field.name] and not unsigned):
            continue
        inner = out
        for name in field.path[:-1]:
            inner = inner.setdefault(name, {})
        inner[field.path[-1]] = _read_field(field, text)
    if not form.get("webhook.url", before["webhook.url"]).strip():
        out.pop("webhook", None)
        if settings.webhook is not None:
            out["webhook"] = None
    out |= _read_services(form, settings)
    try:
        settings.changed(out)
    except ApiProblem as problem:
        errors = _field_errors(problem, fields, form)
        raise invalid(next(iter(errors.values()), problem.detail), fields=errors) from None
    return out


def _field_errors(problem: ApiProblem, fields: list[Field], form: Mapping[str, str]) -> dict[str, str]:
    """What a problem says of each field of the form; numbers in the units of the form."""
    out = dict[str, str]()
    for path, words in problem.fields.items():
        for field in fields:
            if field.name == path or field.name.startswith(f"{path}."):
                typed = form.get(field.name, "")[:40]
                out[field.name] = f"{field.label} {typed!r}: {field.wanted}" if field.wanted else words
                break
    return out


def _read_services(form: Mapping[str, str], settings: Settings) -> dict[str, Any]:
    """The notification services, where one was added or removed."""
    kept: list[dict[str, str]] = [
        {"name": one.name} for one in settings.notify if f"notify.remove.{one.name}" not in form
    ]
    new = {name: form.get(f"notify.{name}", "").strip() for name in Notification.model_fields}
    added = [new] if any(new.values()) else []
    return {"notify": kept + added} if added or len(kept) < len(settings.notify) else {}


def _read_field(field: Field, text: str) -> Any:
    """What was typed as a value of JSON; what is not a number stays a text, which the settings refuse."""
    if field.choices == ("no", "yes"):
        return YES_NO.get(text, text)
    if field.kind == "list":
        return [name.strip() for name in text.split(",") if name.strip()]
    if field.kind not in ("number", "percent"):
        return text
    if not text:
        return None
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        return text
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


@router.post("")
def save_settings(request: Request, model: str, caller: Admin, body: Body) -> Response:
    """Change what the form changed; a problem is shown beside its field, and the form keeps what was typed."""
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


@router.post("/suggested")
def accept_suggestion(request: Request, model: str, caller: Admin) -> Response:
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
    fields, groups = form_fields(settings), dict[str, list[Field]]()
    for field in fields:
        groups.setdefault(field.group, []).append(field)
    secrets = {field.name for field in fields if field.kind == "secret"}
    texts = form_texts(settings) | {k: v for k, v in (kept or {}).items() if k not in secrets}
    return page(
        "settings.html.j2",
        200 if problem is None else problem.status,
        model=model,
        groups=groups,
        texts=texts,
        errors={} if problem is None else problem.fields,
        settings=settings,
        suggested=None if settings.limits.on_error else suggest_limits(get_model(store, model)),
        was=fingerprint(settings),
        signed=settings.webhook is not None and bool(settings.webhook.secret),
        may_change=caller.may("admin", model),
        problem=problem,
        saved="saved" in request.query_params and problem is None,
    )
