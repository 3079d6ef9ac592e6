"""A model's settings: window, lateness, segments, limits, retention, webhook; checked once, kept as JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, computed_field

from shiftgauge.methods import METHODS
from shiftgauge.monitor.periods import check_window_length
from shiftgauge.monitor.problems import check_name, invalid
from shiftgauge.monitor.records import Record, explain

#: At most so many segments are estimated one by one.
MOST_SEGMENTS = 8
SHAPES = ("json", "slack")
SECRET_PREFIX = "whsec_"
#: Methods that estimate an error from one model's scores.
METHOD_NAMES = ("auto", *sorted(name for name in METHODS if name not in ("auto", "entropy", "gde")))


def _check_method(name: Any) -> Any:
    if not isinstance(name, str) or name not in METHOD_NAMES:
        raise invalid(f"method {str(name)[:40]!r}: wanted one of {', '.join(METHOD_NAMES)}")
    return name


def _check_url(url: Any) -> Any:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, TypeError, AttributeError):
        good = False
    if not isinstance(url, str) or not good or len(url) > 2000:
        raise invalid(
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
        raise invalid(
            "webhook.secret: wanted whsec_ and base64 of 24 to 64 bytes (Standard Webhooks); make one with: "
            "openssl rand -base64 32"
        )
    return text


def _check_segments(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(check_name(name, "segment") for name in names))


Fraction = Annotated[float, Field(strict=True, ge=0.0, le=1.0)]
Hours = Annotated[float, Field(strict=True, ge=0.0, le=24.0 * 365)]


class AlertLimits(Record):
    """Limits whose excess fires an alert; null for none."""

    error: Fraction | None = Field(
        default=None, description="of the estimate less its sampling part, or of the labels"
    )
    rise: Fraction | None = Field(
        default=None, description="the same, of the difference to the source's error"
    )
    width: Fraction | None = Field(default=None, description="of the range")
    silence_hours: Hours | None = Field(default=None, description="without a row")
    not_estimated_hours: Hours | None = Field(
        default=None, description="since a window closed (its lateness included) that has no estimate"
    )
    windows: int = Field(
        default=1,
        strict=True,
        ge=1,
        le=100,
        description="in a row beyond a limit to fire, within it to resolve",
    )

    @property
    def on_error(self) -> bool:
        """Whether the error, or its rise, has a limit."""
        return self.error is not None or self.rise is not None

    @property
    def none(self) -> bool:
        """Whether nothing has a limit."""
        return all(value is None for name, value in self if name != "windows")


class Webhook(Record):
    """Where alerts are sent."""

    url: Annotated[str, BeforeValidator(_check_url)]
    secret: Annotated[str, BeforeValidator(_check_secret)] = Field(
        default="",
        strict=True,
        repr=False,
        exclude=True,
        description="of the signature (Standard Webhooks); never shown",
    )
    shape: Literal["json", "slack"] = "json"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def signed(self) -> bool:
        """Whether messages are signed."""
        return bool(self.secret)


class Settings(Record):
    """The settings of a model."""

    window: Annotated[str, BeforeValidator(check_window_length)] = Field(
        default="day", description="hour, day, week (all UTC), or a number of rows such as '1000 rows'"
    )
    lateness_minutes: float = Field(
        default=60.0,
        strict=True,
        ge=0.0,
        le=60.0 * 24 * 90,
        description="how long a window waits for late rows",
    )
    segments: Annotated[tuple[str, ...], AfterValidator(_check_segments)] = Field(
        default=(), max_length=MOST_SEGMENTS, description="names of segments to estimate one by one"
    )
    level: float = Field(default=0.9, strict=True, ge=0.5, le=0.99, description="of all ranges")
    method: Annotated[str, BeforeValidator(_check_method)] = Field(
        default="auto", description="whose estimate is shown"
    )
    replicates: int = Field(default=200, strict=True, ge=20, le=2000, description="of the bootstrap")
    labels_are_random: bool = Field(
        default=False,
        strict=True,
        description="whether labels that nobody requested are of a random sample of rows, and so narrow the range",
    )
    retention_days: Annotated[float, Field(strict=True, ge=1 / 24, le=36_500.0)] | None = Field(
        default=None, description="rows older than this are erased; null keeps them"
    )
    limits: AlertLimits = AlertLimits()
    webhook: Webhook | None = None

    def to_stored(self) -> dict[str, Any]:
        """As values of JSON for the database, with the webhook's secret."""
        out = self.to_dict()
        if self.webhook is not None:
            out["webhook"] = {
                "url": self.webhook.url,
                "secret": self.webhook.secret,
                "shape": self.webhook.shape,
            }
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
        if isinstance(new.get("webhook"), dict):
            webhook = {name: value for name, value in new["webhook"].items() if name != "signed"}
            if webhook.get("secret", 0) is None:  # not shown, so not sent back: the old one stays
                webhook.pop("secret")
            new["webhook"] = (old["webhook"] or {"url": None}) | webhook
        return from_stored(old | new)


def from_stored(values: Mapping[str, Any]) -> Settings:
    """Settings from values of JSON."""
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        known = {
            "": list(Settings.model_fields),
            "limits": list(AlertLimits.model_fields),
            "webhook": list(Webhook.model_fields),
        }
        raise explain(error, "settings", known) from None
