"""Numbers for Prometheus, read from the database when they are asked for: every process tells the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from sqlalchemy import func, select

from shiftgauge._version import __version__
from shiftgauge.monitor.db.schema import alerts, models, outbox
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.db.windows import WindowView, list_windows, newest_observed
from shiftgauge.monitor.periods import SECOND
from shiftgauge.monitor.views.overview import ModelView, list_models

#: No model gets more series of segments than this; how many were left out is itself a metric.
MOST_SEGMENTS = 50
#: Versions without a window among so many of the newest have had their day: they get no series.
NEWEST = 200
BY_WINDOW = ("model", "version", "method", "segment")
GAUGES = {
    "shiftgauge_estimated_error_ratio": ("error", "Estimated error of the newest window."),
    "shiftgauge_estimated_error_low_ratio": ("low", "Lower end of the estimate's range."),
    "shiftgauge_estimated_error_high_ratio": ("high", "Upper end of the estimate's range."),
}
#: Metrics beside the error, by the labels `metric` and `class` ("" for all classes).
METRIC_GAUGES = {
    "shiftgauge_estimated_metric_ratio": ("value", "Estimated metric of the newest window."),
    "shiftgauge_estimated_metric_low_ratio": ("low", "Lower end of the metric's range."),
    "shiftgauge_estimated_metric_high_ratio": ("high", "Upper end of the metric's range."),
    "shiftgauge_source_metric_ratio": ("source", "Metric on the labelled source."),
}
PLAIN = {
    "shiftgauge_adaptive_range_low_ratio": (
        "adaptive_low",
        "Lower end of the adaptive range, which learns from past misses.",
    ),
    "shiftgauge_adaptive_range_high_ratio": (
        "adaptive_high",
        "Upper end of the adaptive range, which learns from past misses.",
    ),
    "shiftgauge_estimated_error_sampling_ratio": (
        "sampling",
        "Half-width of the part of the range that is sampling error.",
    ),
    "shiftgauge_source_error_ratio": ("source_error", "Error on the labelled source."),
    "shiftgauge_window_rows": ("rows", "Rows of the newest window."),
    "shiftgauge_window_labels": ("labels", "Labels of the newest window so far."),
}


def exposition(store: Store, only: list[str] | None = None) -> bytes:
    """The text that Prometheus reads.

    Args:
        store: where.
        only: names of models; None for all.
    """
    registry = CollectorRegistry(auto_describe=False)

    class Reader:
        def collect(self) -> Iterator[Any]:
            return collect(store, only)

    registry.register(Reader())
    return bytes(generate_latest(registry))


def collect(store: Store, only: list[str] | None) -> Iterator[Any]:
    """Every metric family."""
    yield InfoMetricFamily("shiftgauge_build", "The shiftgauge that serves this.", {"version": __version__})
    overviews = list_models(store, only)
    newest = {model.name: _newest(store, model) for model in overviews}
    views = [view for pairs in newest.values() for view, _ in pairs]
    truths = [truth for pairs in newest.values() for _, truth in pairs if truth is not None]
    dropped = GaugeMetricFamily(
        "shiftgauge_segment_series_dropped", "Segment series beyond the cap.", labels=["model"]
    )
    for name, (field, text) in GAUGES.items():
        family = GaugeMetricFamily(name, text, labels=list(BY_WINDOW))
        for view in views:
            _add(family, view, field)
        yield family
    for name, (field, text) in PLAIN.items():
        yield _simple(GaugeMetricFamily(name, text, labels=["model", "version"]), views, field)
    yield _observed(GaugeMetricFamily, truths)
    for name, (field, text) in METRIC_GAUGES.items():
        yield _metric_gauge(name, text, views, field)
    text = "Metric by labels, of the newest window that has some."
    yield _metric_gauge("shiftgauge_observed_metric_ratio", text, truths, "observed")
    end = GaugeMetricFamily(
        "shiftgauge_window_end_timestamp_seconds", "End of the newest window.", labels=["model", "version"]
    )
    for view in views:
        end.add_metric([view.model, view.version], view.end / SECOND)
    yield end
    for model in overviews:
        over = sum(max(0, len(view.segments) - MOST_SEGMENTS) for view, _ in newest[model.name])
        dropped.add_metric([model.name], over)
    yield dropped
    rows = CounterMetricFamily(
        "shiftgauge_predictions_ingested", "Rows accepted.", labels=["model", "version"]
    )
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


def _add(family: Any, view: WindowView, field: str) -> None:
    """The whole window (segment "") and its segments, up to the cap."""
    base = [view.model, view.version, view.method or ""]
    value = getattr(view, field)
    if value is not None:
        family.add_metric([*base, ""], value)
    for segment in view.segments[:MOST_SEGMENTS]:
        value = getattr(segment, field)
        if value is not None:
            family.add_metric([*base, f"{segment.segment}={segment.value}"], value)


def _simple(family: Any, views: list[WindowView], field: str) -> Any:
    for view in views:
        value = getattr(view, field)
        if value is not None:
            family.add_metric([view.model, view.version], value)
    return family


def _metric_gauge(name: str, text: str, views: list[WindowView], field: str) -> Any:
    family = GaugeMetricFamily(name, text, labels=["model", "version", "method", "metric", "class"])
    for view in views:
        for metric in view.metrics:
            value = getattr(metric, field)
            if value is not None:
                labels = [view.model, view.version, view.method or "", metric.metric, metric.of or ""]
                family.add_metric(labels, value)
    return family


def _observed(kind: Any, views: list[WindowView]) -> Any:
    family = kind(
        "shiftgauge_observed_error_ratio",
        "Error by labels, of the newest window that has some.",
        labels=["model", "version", "segment"],
    )
    for view in views:
        family.add_metric([view.model, view.version, ""], view.observed)
        for segment in view.segments[:MOST_SEGMENTS]:
            if segment.observed is not None:
                name = f"{segment.segment}={segment.value}"
                family.add_metric([view.model, view.version, name], segment.observed)
    return family


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
    fired = CounterMetricFamily(
        "shiftgauge_alerts_fired", "Alerts that ever fired.", labels=["model", "rule"]
    )
    firing = GaugeMetricFamily("shiftgauge_alerts_firing", "Alerts that fire now.", labels=["model", "rule"])
    for name, rule, count, resolved in rows:
        fired.add_metric([name, rule], count)
        firing.add_metric([name, rule], count - resolved)
    waiting = GaugeMetricFamily(
        "shiftgauge_windows_waiting", "Closed windows without an estimate.", labels=["model"]
    )
    for model in overviews:
        waiting.add_metric([model.name], model.waiting)
    undelivered = GaugeMetricFamily(
        "shiftgauge_alert_messages_undelivered", "Messages in the outbox.", labels=["model"]
    )
    counts = {row[0]: row[1] for row in late}
    for name in names:  # none is a number too: an alert on it must not lack its series
        undelivered.add_metric([name], counts.get(name, 0))
    yield from (fired, firing, waiting, undelivered)
