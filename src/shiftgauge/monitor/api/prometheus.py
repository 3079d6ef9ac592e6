"""Numbers for Prometheus, read from the database when they are asked for: every process tells the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from sqlalchemy import func, select

from shiftgauge._version import __version__
from shiftgauge.monitor.db.schema import alerts, models, outbox
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.db.windows import WindowView, list_windows, newest_observed
from shiftgauge.monitor.periods import SECOND
from shiftgauge.monitor.views import ModelView, list_models

#: No model gets more series of segments than this; how many were left out is itself a metric.
MOST_SEGMENTS = 50
#: Versions without a window among so many of the newest have had their day: they get no series.
NEWEST = 200
MODEL, VERSION = ("model",), ("model", "version")
BY_SEGMENT = ("model", "version", "method", "segment")
BY_METRIC = ("model", "version", "method", "metric", "class")
#: Name, field of a window and of its segments, help.
ERRORS = (
    ("shiftgauge_estimated_error_ratio", "error", "Estimated error of the newest window."),
    ("shiftgauge_estimated_error_low_ratio", "low", "Lower end of the estimate's range."),
    ("shiftgauge_estimated_error_high_ratio", "high", "Upper end of the estimate's range."),
)
LEARNS = "end of the adaptive range, which learns from past errors of the estimates."
#: Name, field of a window, help.
WINDOWS = (
    ("shiftgauge_adaptive_range_low_ratio", "adaptive_low", f"Lower {LEARNS}"),
    ("shiftgauge_adaptive_range_high_ratio", "adaptive_high", f"Upper {LEARNS}"),
    (
        "shiftgauge_estimated_error_sampling_ratio",
        "sampling",
        "Half-width of the part of the range that is sampling error.",
    ),
    ("shiftgauge_source_error_ratio", "source_error", "Error on the labelled source."),
    ("shiftgauge_window_rows", "rows", "Rows of the newest window."),
    ("shiftgauge_window_labels", "labels", "Labels of the newest window so far."),
)
#: Name, field of a metric beside the error, help; the label `class` is "" for all classes.
METRICS = (
    ("shiftgauge_estimated_metric_ratio", "value", "Estimated metric of the newest window."),
    ("shiftgauge_estimated_metric_low_ratio", "low", "Lower end of the metric's range."),
    ("shiftgauge_estimated_metric_high_ratio", "high", "Upper end of the metric's range."),
    ("shiftgauge_source_metric_ratio", "source", "Metric on the labelled source."),
)
Samples = Iterable[tuple[Sequence[str], float | None]]


def exposition(store: Store, only: list[str] | None = None) -> bytes:
    """The text that Prometheus reads, of all models or those named."""

    class Reader:
        def collect(self) -> Iterator[Any]:
            return collect(store, only)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Reader())
    return bytes(generate_latest(registry))


def collect(store: Store, only: list[str] | None) -> Iterator[Any]:
    """Every metric family."""
    yield InfoMetricFamily("shiftgauge_build", "The shiftgauge that serves this.", {"version": __version__})
    overviews = list_models(store, only)
    newest = {model.name: _newest(store, model) for model in overviews}
    views = [view for pairs in newest.values() for view, _ in pairs]
    judged = [view for pairs in newest.values() for _, view in pairs if view is not None]
    for name, field, text in ERRORS:
        yield _gauge(name, text, BY_SEGMENT, _by_segment(views, field, with_method=True))
    for name, field, text in WINDOWS:
        yield _gauge(name, text, VERSION, (((v.model, v.version), getattr(v, field)) for v in views))
    text = "Error by labels, of the newest window that has some."
    by_segment = _by_segment(judged, "observed", with_method=False)
    yield _gauge("shiftgauge_observed_error_ratio", text, ("model", "version", "segment"), by_segment)
    for name, field, text in METRICS:
        yield _gauge(name, text, BY_METRIC, _by_metric(views, field))
    text = "Metric by labels, of the newest window that has some."
    yield _gauge("shiftgauge_observed_metric_ratio", text, BY_METRIC, _by_metric(judged, "observed"))
    ends = (((v.model, v.version), v.end / SECOND) for v in views)
    yield _gauge("shiftgauge_window_end_timestamp_seconds", "End of the newest window.", VERSION, ends)
    beyond = (
        ((name,), sum(max(0, len(view.segments) - MOST_SEGMENTS) for view, _ in pairs))
        for name, pairs in newest.items()
    )
    yield _gauge("shiftgauge_segment_series_dropped", "Segment series beyond the cap.", MODEL, beyond)
    rows = CounterMetricFamily("shiftgauge_predictions_ingested", "Rows accepted.", labels=VERSION)
    for model in overviews:
        for version in model.versions:
            rows.add_metric([model.name, version.name], version.rows)
    yield rows
    yield from _alerts(store, overviews)


def _newest(store: Store, model: ModelView) -> list[tuple[WindowView, WindowView | None]]:
    """The newest estimated window of each version, and the newest with an observed error."""
    out: dict[str, WindowView] = {}
    for view in reversed(list_windows(store, model.name, estimated=True, limit=NEWEST)):
        out.setdefault(view.version, view)
    return [(view, newest_observed(store, model.name, name)) for name, view in out.items()]


def _gauge(name: str, text: str, labels: Sequence[str], samples: Samples) -> Any:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in samples:
        if number is not None:
            family.add_metric(values, number)
    return family


def _by_segment(views: list[WindowView], field: str, *, with_method: bool) -> Samples:
    """The whole window (segment "") and its segments, up to the cap."""
    for view in views:
        base = [view.model, view.version, *([view.method or ""] if with_method else [])]
        yield [*base, ""], getattr(view, field)
        for segment in view.segments[:MOST_SEGMENTS]:
            yield [*base, f"{segment.segment}={segment.value}"], getattr(segment, field)


def _by_metric(views: list[WindowView], field: str) -> Samples:
    for view in views:
        for metric in view.metrics:
            labels = [view.model, view.version, view.method or "", metric.metric, metric.of or ""]
            yield labels, getattr(metric, field)


def _alerts(store: Store, overviews: list[ModelView]) -> Iterator[Any]:
    names = [model.name for model in overviews]
    with store.read() as connection:
        rows = connection.execute(
            select(models.c.name, alerts.c.rule, func.count(), func.count(alerts.c.resolved))
            .join(models, models.c.id == alerts.c.model_id)
            .where(models.c.name.in_(names))
            .group_by(models.c.name, alerts.c.rule)
        ).all()
        late = connection.execute(
            select(models.c.name, func.count())
            .join(models, models.c.id == outbox.c.model_id)
            .where(models.c.name.in_(names), outbox.c.delivered.is_(None))
            .group_by(models.c.name)
        ).all()
    by_rule = ("model", "rule")
    fired = CounterMetricFamily("shiftgauge_alerts_fired", "Alerts that ever fired.", labels=by_rule)
    for name, rule, count, _ in rows:
        fired.add_metric([name, rule], count)
    yield fired
    firing = (((name, rule), count - resolved) for name, rule, count, resolved in rows)
    yield _gauge("shiftgauge_alerts_firing", "Alerts that fire now.", by_rule, firing)
    waiting = (((model.name,), model.waiting) for model in overviews)
    yield _gauge("shiftgauge_windows_waiting", "Closed windows without an estimate.", MODEL, waiting)
    counts = {row[0]: row[1] for row in late}
    # None is a number too: an alert on it must not lack its series.
    undelivered = (((name,), counts.get(name, 0)) for name in names)
    yield _gauge("shiftgauge_alert_messages_undelivered", "Messages in the outbox.", MODEL, undelivered)
