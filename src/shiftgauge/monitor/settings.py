"""A model's settings: windows, metrics, limits, retention, where alerts are sent; checked once, kept as JSON."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, computed_field
from pydantic.config import JsonDict

from shiftgauge.errors import MissingDependencyError, optional
from shiftgauge.methods import METHODS
from shiftgauge.monitor.periods import check_window_length
from shiftgauge.monitor.problems import ApiProblem, check_name, invalid
from shiftgauge.monitor.records import Record, explain

#: At most so many segments are estimated one by one.
MOST_SEGMENTS = 8
#: Metrics that can be estimated beside the error, and on which side of a limit they are bad. Without a class,
#: precision, recall and F1 are means over classes, and `class_error` stands for the error within each class.
METRICS = {
    "precision": "below",
    "recall": "below",
    "f1": "below",
    "roc_auc": "below",
    "class_error": "above",
}
MOST_METRICS = 50
#: Services that alerts are sent to, at most.
MOST_NOTIFICATIONS = 10
SECRET_PREFIX = "whsec_"
#: Methods that estimate an error from one model's scores.
METHOD_NAMES = ("auto", *sorted(name for name in METHODS if name not in ("auto", "entropy", "gde")))


def _checked(check: Callable[[Any], str]) -> Callable[[Any], str]:
    """A check as pydantic wants it: its problem becomes a ValueError, which pydantic reports with the field."""

    def run(value: Any) -> str:
        try:
            return check(value)
        except ApiProblem as problem:
            raise ValueError(problem.detail) from None

    return run


def _check_method(name: Any) -> Any:
    if not isinstance(name, str) or name not in METHOD_NAMES:
        raise ValueError(f"method {str(name)[:40]!r}: wanted one of {', '.join(METHOD_NAMES)}")
    return name


def _check_url(url: Any) -> Any:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, TypeError, AttributeError):
        good = False
    if not isinstance(url, str) or not good or len(url) > 2000:
        raise ValueError(
            f"webhook.url {str(url)[:60]!r}: wanted an address that begins with https:// or http://"
        )
    return url


def _check_secret(text: Any) -> Any:
    try:
        good = (
            text == "" or 24 <= len(base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)) <= 64
        )
    except (ValueError, AttributeError):
        good = False
    if not good:
        raise ValueError(
            "webhook.secret: wanted whsec_ and base64 of 24 to 64 bytes (Standard Webhooks); make one with: "
            "openssl rand -base64 32"
        )
    return text


def _check_notification_url(url: Any) -> Any:
    if url == "":
        raise ValueError("notify: a service has no url yet; wanted one of apprise, such as slack://...")
    return url


def _check_service_names(services: tuple[Notification, ...]) -> tuple[Notification, ...]:
    if len({one.name for one in services}) < len(services):
        raise ValueError("notify: two services have the same name; wanted different ones")
    return services


def _without_repeats(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def split_metric(name: str) -> tuple[str, str | None]:
    """A metric and the class that it is of.

    >>> split_metric("recall:fraud"), split_metric("f1")
    (('recall', 'fraud'), ('f1', None))
    """
    kind, colon, of = name.partition(":")
    return kind, of if colon else None


def _check_metric(name: str) -> str:
    kind, of = split_metric(name)
    if kind not in METRICS or of == "" or (kind == "roc_auc" and of is not None):
        raise ValueError(
            f"metric {name[:60]!r}: wanted one of {', '.join(METRICS)}, or that of a class, such as recall:fraud"
        )
    return name


def _form(**values: Any) -> JsonDict:
    """What the settings page needs beside title, description, type and range, as an extension of the JSON schema.

    `group`: the heading above the field. `unit`: what follows the number; with "%" or "points" the page shows
    hundredths. `choices`: the values of a list to choose from.
    """
    return {"x-form": values}


Window = Annotated[str, BeforeValidator(_checked(check_window_length))]
Segment = Annotated[str, AfterValidator(_checked(partial(check_name, what="segment")))]
ServiceName = Annotated[str, AfterValidator(_checked(partial(check_name, what="notification")))]
Metric = Annotated[str, AfterValidator(_check_metric)]
Fraction = Annotated[float, Field(strict=True, ge=0.0, le=1.0)]
Hours = Annotated[float, Field(strict=True, ge=0.0, le=24.0 * 365)]


class AlertLimits(Record):
    """Limits whose excess fires an alert; null for none."""

    error: Fraction | None = Field(
        default=None,
        title="Error",
        description="the estimate less its sampling part, or the error of the labels, lies above this",
        json_schema_extra=_form(unit="%"),
    )
    rise: Fraction | None = Field(
        default=None,
        title="Rise",
        description="it lies this far above the source's error",
        json_schema_extra=_form(unit="points"),
    )
    metrics: dict[Metric, Fraction] = Field(
        default={},
        max_length=MOST_METRICS,
        description="by metric, such as f1 or recall:fraud: class_error fires above its limit, the others below; a "
        "limit on class_error is one on the error within each class",
        json_schema_extra=_form(unit="%"),
    )
    width: Fraction | None = Field(
        default=None,
        title="Width of the range",
        description="the range is wider than this",
        json_schema_extra=_form(unit="points"),
    )
    silence_hours: Hours | None = Field(
        default=None,
        title="Silence",
        description="no row has arrived for so long",
        json_schema_extra=_form(unit="hours"),
    )
    not_estimated_hours: Hours | None = Field(
        default=None,
        title="Not estimated",
        description="a window that closed so long ago (its lateness included) has no estimate",
        json_schema_extra=_form(unit="hours"),
    )
    windows: int = Field(
        default=1,
        strict=True,
        ge=1,
        le=100,
        title="Windows in a row",
        description="beyond a limit to fire, within it to resolve",
    )

    @property
    def on_error(self) -> bool:
        """Whether the error, its rise, or another metric has a limit."""
        return self.error is not None or self.rise is not None or bool(self.metrics)

    @property
    def none(self) -> bool:
        """Whether nothing has a limit."""
        return not self.metrics and all(
            value is None for name, value in self if name not in ("windows", "metrics")
        )


class Webhook(Record):
    """Where alerts are sent."""

    url: Annotated[str, BeforeValidator(_check_url)] = Field(
        title="Address", description="https://...", json_schema_extra={"format": "uri"}
    )
    shape: Literal["json", "slack"] = Field(default="json", description="of the message")
    secret: Annotated[str, BeforeValidator(_check_secret)] = Field(
        default="",
        strict=True,
        repr=False,
        exclude=True,
        description="of the signature (Standard Webhooks): whsec_ and base64 of 24 to 64 bytes; never shown",
        json_schema_extra={"writeOnly": True},
    )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def signed(self) -> bool:
        """Whether messages are signed."""
        return bool(self.secret)


class Notification(Record):
    """A service that alerts are sent to, by apprise."""

    name: ServiceName = Field(
        title="Service name", description="chosen by you, such as ml-team; shown in place of the URL"
    )
    url: Annotated[str, AfterValidator(_check_notification_url)] = Field(
        default="",
        validate_default=True,
        repr=False,
        exclude=True,
        title="Service URL",
        description="of apprise, such as slack://... or mailto://...; never shown",
        json_schema_extra={"writeOnly": True, "minLength": 1},
    )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def service(self) -> str:
        """The service: the scheme of its URL."""
        return self.url.partition(":")[0]


class Settings(Record):
    """The settings of a model."""

    window: Window = Field(
        default="day",
        description="hour, day, week (all UTC), or a number of rows such as 1000 rows",
        json_schema_extra=_form(group="Windows"),
    )
    lateness_minutes: float = Field(
        default=60.0,
        strict=True,
        ge=0.0,
        le=60.0 * 24 * 90,
        title="Lateness",
        description="how long a window waits for late rows",
        json_schema_extra=_form(group="Windows", unit="minutes"),
    )
    segments: Annotated[tuple[Segment, ...], AfterValidator(_without_repeats)] = Field(
        default=(),
        max_length=MOST_SEGMENTS,
        description="names of segments to estimate one by one",
        json_schema_extra=_form(group="Windows"),
    )
    method: Annotated[str, BeforeValidator(_check_method)] = Field(
        default="auto",
        description="whose estimate is shown",
        json_schema_extra=_form(group="Estimate", choices=list(METHOD_NAMES)),
    )
    level: float = Field(
        default=0.9,
        strict=True,
        ge=0.5,
        le=0.99,
        description="of all ranges",
        json_schema_extra=_form(group="Estimate", unit="%"),
    )
    metrics: Annotated[tuple[Metric, ...], AfterValidator(_without_repeats)] = Field(
        default=(),
        max_length=MOST_METRICS,
        description=f"beside the error: {', '.join(METRICS)}, or that of a class, such as recall:fraud",
        json_schema_extra=_form(group="Estimate"),
    )
    labels_are_random: bool = Field(
        default=False,
        strict=True,
        title="Labels are random",
        description="whether rows get labels at random, not because of what happened to them; then labels that "
        "nobody requested narrow the range too",
        json_schema_extra=_form(group="Estimate"),
    )
    replicates: int = Field(
        default=200,
        strict=True,
        ge=20,
        le=2000,
        description="of the bootstrap: segments, named methods, the report",
        json_schema_extra=_form(group="Estimate"),
    )
    limits: AlertLimits = Field(default=AlertLimits(), json_schema_extra=_form(group="Alert limits"))
    notify: Annotated[tuple[Notification, ...], AfterValidator(_check_service_names)] = Field(
        default=(),
        max_length=MOST_NOTIFICATIONS,
        description="services that alerts are sent to",
        json_schema_extra=_form(group="Notifications"),
    )
    webhook: Webhook | None = Field(default=None, json_schema_extra=_form(group="Webhook"))
    retention_days: Annotated[float, Field(strict=True, ge=1 / 24, le=36_500.0)] | None = Field(
        default=None,
        title="Rows are erased after",
        description="rows older than this are erased; without it, they are kept",
        json_schema_extra=_form(group="Retention", unit="days"),
    )

    def estimated_metrics(self) -> tuple[str, ...]:
        """The metrics that were chosen, and those that have a limit."""
        return tuple(dict.fromkeys((*self.metrics, *self.limits.metrics)))

    def to_stored(self) -> dict[str, Any]:
        """As values of JSON for the database, with secrets."""
        out = self.to_dict()
        if self.webhook is not None:
            out["webhook"] = {name: getattr(self.webhook, name) for name in Webhook.model_fields}
        out["notify"] = [{"name": one.name, "url": one.url} for one in self.notify]
        return out

    def changed(self, given: Any) -> Settings:
        """These settings with what was given (a JSON object) in place; the rest stays."""
        if not isinstance(given, dict):
            raise invalid(f"settings: arrived as {type(given).__name__}; wanted a JSON object")
        old, new = self.to_stored(), dict(given)
        if new.get("limits", 0) is None:
            new["limits"] = {}
        elif isinstance(new.get("limits"), dict):
            new["limits"] = old["limits"] | new["limits"]
            metrics = given["limits"].get("metrics", {})
            if isinstance(metrics, dict):
                both = old["limits"]["metrics"] | metrics
                new["limits"]["metrics"] = {k: v for k, v in both.items() if v is not None}
        if isinstance(new.get("webhook"), dict):
            webhook = {name: value for name, value in new["webhook"].items() if name != "signed"}
            if webhook.get("secret", 0) is None:  # not shown, so not sent back: the old one stays
                webhook.pop("secret")
            new["webhook"] = (old["webhook"] or {"url": None}) | webhook
        if isinstance(new.get("notify"), list):
            known = {one["name"]: one for one in old["notify"]}
            new["notify"] = [_with_known_url(one, known) for one in new["notify"]]
        return _from_values(old | new)


def _with_known_url(given: Any, known: dict[str, dict[str, str]]) -> Any:
    """A notification as given; where its URL is not given, with the one that its name had."""
    if not isinstance(given, dict):
        raise invalid('notify: wanted objects such as {"name": "ml-team", "url": "slack://..."}')
    one = {name: value for name, value in given.items() if name != "service"}
    if one.get("url") is None:
        one.pop("url", None)
        old = known.get(one["name"], {}) if isinstance(one.get("name"), str) else {}
        return old | one
    return one


def check_notifications(given: Any) -> None:
    """Refuse new notification URLs that apprise cannot read; nothing that is said repeats them."""
    entries = given.get("notify") if isinstance(given, dict) else None
    urls = [one.get("url") for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    for number, url in enumerate(url for url in urls if url is not None):
        try:
            apprise = optional("apprise", extra="notify", purpose="notify: the monitor")
        except MissingDependencyError as problem:
            raise invalid(str(problem)) from None
        logging.getLogger("apprise").disabled = True  # it would log the URL
        if not isinstance(url, str) or len(url) > 2000 or apprise.Apprise.instantiate(url) is None:
            raise invalid(
                f"notify: apprise cannot read URL {number}; wanted one such as slack://... or mailto://..., see "
                "https://appriseit.com",
                fields={
                    "notify.url": "apprise cannot read it; wanted one such as slack://... or mailto://..."
                },
            )


def stored_settings(text: str) -> Settings:
    """Settings from the JSON that the database holds."""
    return _from_values(json.loads(text))


def _from_values(values: Mapping[str, Any]) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        known = {
            "": list(Settings.model_fields),
            "limits": list(AlertLimits.model_fields),
            "webhook": list(Webhook.model_fields),
            **{f"notify.{i}": list(Notification.model_fields) for i in range(MOST_NOTIFICATIONS)},
        }
        raise explain(error, "settings", known) from None
