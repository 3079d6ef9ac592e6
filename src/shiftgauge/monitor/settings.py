"""A model's settings: window, lateness, segments, limits, retention, webhook; checked once, kept as JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any
from urllib.parse import urlsplit

from shiftgauge.errors import nearest
from shiftgauge.methods import METHODS
from shiftgauge.monitor.periods import check_window_length
from shiftgauge.monitor.problems import check_name, invalid

#: Segments beyond this many values are counted together and get no series of their own.
MOST_SEGMENTS = 8
SHAPES = ("json", "slack")
SECRET_PREFIX = "whsec_"


@dataclass(frozen=True)
class AlertLimits:
    """Alert limits; None for no limit.

    Attributes:
        error: the estimate exceeds this by more than its sampling part, or the labels do.
        rise: the same, of the difference to the source's error.
        width: the range is wider than this.
        silence_hours: no row has arrived for so long.
        not_estimated_hours: a window ended so long ago (beyond its lateness) and has no estimate.
        windows: how many windows in a row must be beyond a limit; as many within it resolve the alert.
    """

    error: float | None = None
    rise: float | None = None
    width: float | None = None
    silence_hours: float | None = None
    not_estimated_hours: float | None = None
    windows: int = 1

    @property
    def on_error(self) -> bool:
        """Whether the error, or its rise, has a limit."""
        return self.error is not None or self.rise is not None

    @property
    def none(self) -> bool:
        """Whether nothing has a limit."""
        return all(value is None for name, value in vars(self).items() if name != "windows")


@dataclass(frozen=True)
class Webhook:
    """Where alerts go.

    Attributes:
        url: http or https.
        secret: of the signature, as Standard Webhooks writes it: `whsec_` and base64 of 24 to 64 bytes; empty for
            none. Never shown again once set.
        shape: `"json"` or `"slack"`.
    """

    url: str
    secret: str = field(default="", repr=False)
    shape: str = "json"


@dataclass(frozen=True)
class Settings:
    """What can be set per model.

    Attributes:
        window: `hour`, `day`, `week` (all UTC) or `N rows`.
        lateness_minutes: how long after its end a window waits for late rows.
        segments: names of segments to estimate one by one.
        level: of all ranges.
        method: whose estimate is shown.
        replicates: of the bootstrap behind the interval.
        labels_are_random: whether labels that nobody requested are of a random sample of rows, and so narrow the range.
        retention_days: rows older than this are erased; None keeps them.
        limits: alert limits.
        webhook: where alerts are sent.
    """

    window: str = "day"
    lateness_minutes: float = 60.0
    segments: tuple[str, ...] = ()
    level: float = 0.9
    method: str = "auto"
    replicates: int = 200
    labels_are_random: bool = False
    retention_days: float | None = None
    limits: AlertLimits = field(default_factory=AlertLimits)
    webhook: Webhook | None = None

    def to_dict(self, *, secrets: bool = False) -> dict[str, Any]:
        """As plain values; the webhook's secret only for the store itself."""
        out = asdict(self)
        out["segments"] = list(self.segments)
        if self.webhook is not None and not secrets:
            out["webhook"]["secret"] = None
            out["webhook"]["signed"] = bool(self.webhook.secret)
        return out

    def changed(self, given: Any) -> Settings:
        """These settings with what was given (a JSON object) in place; the rest stays."""
        values = _object(given, "settings", [f.name for f in fields(Settings)])
        out = self
        for name, value in values.items():
            out = replace(out, **{name: _READERS[name](value, out)})
        return out


def from_stored(values: Mapping[str, Any]) -> Settings:
    """Settings as the store kept them: checked when they came, trusted now."""
    out = dict(values)
    out["segments"] = tuple(out.get("segments", ()))
    out["limits"] = AlertLimits(**out.get("limits", {}))
    out["webhook"] = Webhook(**out["webhook"]) if out.get("webhook") else None
    return Settings(**out)


def _object(given: Any, what: str, known: list[str]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise invalid(f"{what}: arrived as {type(given).__name__}; wanted a JSON object")
    for name in given:
        if name not in known:
            raise invalid(
                f"{what}: {str(name)[:60]!r} is not known{nearest(str(name), known)}; known are {', '.join(known)}"
            )
    return dict(given)


def _number(value: Any, what: str, low: float, high: float) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not low <= value <= high:
        raise invalid(f"{what} {str(value)[:40]!r}: wanted a number from {low:g} to {high:g}")
    return float(value)


def _optional(value: Any, what: str, low: float, high: float) -> float | None:
    return None if value is None else _number(value, what, low, high)


def _whole(value: Any, what: str, low: int, high: int) -> int:
    number = _number(value, what, low, high)
    if number != int(number):
        raise invalid(f"{what} {value!r}: wanted a whole number from {low} to {high}")
    return int(number)


def _segments(value: Any, _: Settings) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MOST_SEGMENTS:
        raise invalid(f"segments {str(value)[:60]!r}: wanted a list of at most {MOST_SEGMENTS} names")
    return tuple(dict.fromkeys(check_name(name, "segment") for name in value))


def _level(value: Any, _: Settings) -> float:
    return _number(value, "level", 0.5, 0.99)


def _method(value: Any, _: Settings) -> str:
    if not isinstance(value, str) or value not in METHODS or value in ("entropy", "gde"):
        raise invalid(f"method {str(value)[:40]!r}: wanted 'auto' or another method that estimates an error")
    return str(value)


def _replicates(value: Any, _: Settings) -> int:
    return _whole(value, "replicates", 20, 2000)


def _flag(value: Any, _: Settings) -> bool:
    if not isinstance(value, bool):
        raise invalid(f"labels_are_random {str(value)[:40]!r}: wanted true or false")
    return value


def _limits(value: Any, old: Settings) -> AlertLimits:
    given = _object({} if value is None else value, "limits", [f.name for f in fields(AlertLimits)])
    out = old.limits if value is not None else AlertLimits()
    for name, limit in given.items():
        if name == "windows":
            out = replace(out, windows=_whole(limit, "limits.windows", 1, 100))
        else:
            most = 1.0 if not name.endswith("hours") else 24.0 * 365
            changed: dict[str, Any] = {name: _optional(limit, f"limits.{name}", 0.0, most)}
            out = replace(out, **changed)
    return out


def _webhook(value: Any, old: Settings) -> Webhook | None:
    if value is None:
        return None
    given = _object(value, "webhook", ["url", "secret", "shape", "signed"])
    url = given.get("url", old.webhook.url if old.webhook else None)
    if not isinstance(url, str) or len(url) > 2000 or not _is_web_address(url):
        raise invalid(
            f"webhook.url {str(url)[:60]!r}: wanted an address that begins with https:// or http://"
        )
    secret = given.get("secret")
    if secret is None:  # not shown, so not sent back: the old one stays
        secret = old.webhook.secret if old.webhook else ""
    if not isinstance(secret, str) or (secret and not _is_secret(secret)):
        raise invalid(
            "webhook.secret: wanted whsec_ and base64 of 24 to 64 bytes (Standard Webhooks); make one with: "
            "openssl rand -base64 32"
        )
    shape = given.get("shape", old.webhook.shape if old.webhook else "json")
    if shape not in SHAPES:
        raise invalid(f"webhook.shape {str(shape)[:40]!r}: wanted 'json' or 'slack'")
    return Webhook(url, secret, shape)


def _is_secret(text: str) -> bool:
    try:
        return 24 <= len(base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)) <= 64
    except ValueError:
        return False


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


_READERS: dict[str, Any] = {
    "window": lambda value, _: check_window_length(value),
    "lateness_minutes": lambda value, _: _number(value, "lateness_minutes", 0.0, 60.0 * 24 * 90),
    "segments": _segments,
    "level": _level,
    "method": _method,
    "replicates": _replicates,
    "labels_are_random": _flag,
    "retention_days": lambda value, _: _optional(value, "retention_days", 1 / 24, 36_500.0),
    "limits": _limits,
    "webhook": _webhook,
}
