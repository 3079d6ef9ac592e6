"""The form of a model's settings: fields as people write them (percent, minutes, names), read back into settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shiftgauge.monitor.problems import conflict, invalid
from shiftgauge.monitor.settings import SHAPES, Settings
from shiftgauge.monitor.spans import LENGTHS

#: The rise over the source's error that is offered as a limit, in points.
SUGGESTED = 5


@dataclass(frozen=True)
class Field:
    """A field of the form.

    Attributes:
        name: in the form; `limits.error` for what stands in the limits.
        label, help: what people read.
        kind: `text`, `number` (a unit may follow), `percent`, `url`, `choice`, `secret`.
        unit: what follows a number.
        choices: of a choice.
    """

    name: str
    label: str
    kind: str
    help: str = ""
    unit: str = ""
    choices: tuple[str, ...] = ()


def groups() -> list[tuple[str, list[Field]]]:
    """The fields, under headings."""
    return [
        ("Windows", _windows()),
        ("Estimate", _estimate()),
        ("Alert limits", _limits()),
        ("Webhook", _webhook()),
        (
            "Retention",
            [Field("retention_days", "Rows are forgotten after", "number", "empty keeps them", "days")],
        ),
    ]


def _windows() -> list[Field]:
    return [
        Field(
            "window",
            "Window",
            "text",
            f"{', '.join(LENGTHS)} (all UTC), or a number such as 1000 rows",
        ),
        Field(
            "lateness_minutes",
            "Lateness",
            "number",
            "how long a window waits for late rows",
            "minutes",
        ),
        Field("segments", "Segments", "text", "names of segments to watch, with commas in between"),
    ]


def _estimate() -> list[Field]:
    return [
        Field("method", "Method", "choice", "whose estimate is shown", choices=_methods()),
        Field("level", "Level", "percent", "of all ranges", "%"),
        Field("replicates", "Replicates", "number", "of the bootstrap: segments, named methods, the report"),
    ]


def _limits() -> list[Field]:
    return [
        Field("limits.error", "Error", "percent", "the estimate less its sampling part lies above this", "%"),
        Field("limits.rise", "Rise", "percent", "it lies this far above the source's error", "points"),
        Field("limits.width", "Width of the range", "percent", "the range is wider than this", "points"),
        Field("limits.silence_hours", "Silence", "number", "no row has arrived for so long", "hours"),
        Field(
            "limits.not_estimated_hours",
            "Not estimated",
            "number",
            "a window is overdue by this",
            "hours",
        ),
        Field(
            "limits.windows",
            "Windows in a row",
            "number",
            "beyond a limit to fire, within to resolve",
        ),
    ]


def _webhook() -> list[Field]:
    return [
        Field("webhook.url", "Address", "url", "https://...; empty for none"),
        Field("webhook.shape", "Shape", "choice", "of the message", choices=SHAPES),
        Field(
            "webhook.secret",
            "Secret",
            "secret",
            "whsec_ and base64 of 24 to 64 bytes; never shown, empty keeps it",
        ),
    ]


def _methods() -> tuple[str, ...]:
    from shiftgauge.methods import METHODS

    return ("auto", *sorted(name for name in METHODS if name not in ("auto", "entropy", "gde")))


def fields() -> list[Field]:
    """All fields."""
    return [field for _, held in groups() for field in held]


def shown(settings: Settings) -> dict[str, str]:
    """The settings as the form shows them, by field; the webhook's secret is always empty."""
    return {field.name: _text(field, _value(settings, field.name)) for field in fields()}


def _value(settings: Settings, name: str) -> Any:
    group, _, inner = name.rpartition(".")
    owner = getattr(settings, group) if group else settings
    return None if owner is None else getattr(owner, inner)


def _text(field: Field, value: Any) -> str:
    if value is None or field.kind == "secret":
        return ""
    if field.kind == "percent":
        return f"{100 * value:.10g}"
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def fingerprint(settings: Settings) -> str:
    """Tells whether settings were changed since a form showed them."""
    held = json.dumps(settings.to_dict(), sort_keys=True)
    return hashlib.sha256(held.encode()).hexdigest()[:16]


def read_form(form: Mapping[str, str], held: Settings) -> dict[str, Any]:
    """What the form changes, as `put_settings` takes it; refuses a form that shows settings of before.

    Args:
        form: texts by field; a field that is not there stays as it is.
        held: the settings now.
    """
    if form.get("was") != fingerprint(held):
        raise conflict(
            "these settings were changed since this form was opened; look at them again, then save"
        )
    before, out = shown(held), dict[str, Any]()
    for field in fields():
        text = form.get(field.name, before[field.name]).strip()
        if text == before[field.name] and field.kind != "secret":
            continue
        if field.kind == "secret" and not text and "webhook.unsigned" not in form:
            continue
        group, _, name = field.name.rpartition(".")
        (out.setdefault(group, {}) if group else out)[name] = _read(field, text)
    if not form.get("webhook.url", before["webhook.url"]).strip():
        out.pop("webhook", None)
        if held.webhook is not None:
            out["webhook"] = None
    return out


def _read(field: Field, text: str) -> Any:
    if field.name == "segments":
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
    return number
