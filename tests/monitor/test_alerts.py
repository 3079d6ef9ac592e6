"""Alerts fire when it is sure, resolve when it is likely, do not flap; messages are signed, retried, kept."""

import base64
import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
from monitor_data import days_ago, labels_json, problem, rows_json, settle_down
from test_calls import post, put_source

from labelfree.monitor.clock import now_us, pretend
from labelfree.monitor.jobs.delivering import FIRST_PAUSE, TRIES, headers, send
from labelfree.monitor.jobs.rules import not_estimated, silence, window_findings
from labelfree.monitor.service.alerts import list_alerts, list_deliveries
from labelfree.monitor.settings import Limits, Webhook
from labelfree.monitor.spans import DAY, HOUR, SECOND
from labelfree.monitor.worker import Worker


def window(low, error, source=0.1, band=(0.1, 0.2), name="w"):
    return SimpleNamespace(
        low=low, error=error, source_error=source, band_low=band[0], band_high=band[1], name=name
    )


def state(newest, **limits):
    return [finding.state for finding in window_findings("v1", newest, Limits(**limits))]


def test_an_alert_fires_when_the_lower_end_is_above_the_limit():
    assert state([window(0.21, 0.3)], error=0.2) == ["fire"]
    assert state([window(0.19, 0.3)], error=0.2) == [None]  # not sure: nothing changes
    assert state([window(0.05, 0.1)], error=0.2) == ["resolve"]
    assert state([window(None, None)], error=0.2) == [None]
    assert state([window(0.2, 0.3)], error=0.2) == [None]  # a limit that is met is not exceeded
    assert state([window(0.1, 0.2)], error=0.2) == ["resolve"]


def test_it_takes_k_windows_to_fire_and_k_to_resolve():
    high, low = window(0.3, 0.4), window(0.05, 0.1)
    assert state([high], error=0.2, windows=2) == [None]
    assert state([high, low], error=0.2, windows=2) == [None]
    assert state([high, high, low], error=0.2, windows=2) == ["fire"]
    assert state([low, high], error=0.2, windows=2) == [None]
    assert state([low, low, high], error=0.2, windows=2) == ["resolve"]


def test_rise_and_disagreement():
    assert state([window(0.21, 0.3, source=0.1)], rise=0.1) == ["fire"]
    assert state([window(0.19, 0.3, source=0.1)], rise=0.1) == [None]
    assert state([window(0.1, 0.1, band=(0.1, 0.4))], disagreement=0.2) == ["fire"]
    assert state([window(0.1, 0.1, band=(0.1, 0.2))], disagreement=0.2) == ["resolve"]


def test_silence_and_windows_that_were_not_estimated():
    limits = Limits(silence_hours=2, not_estimated_hours=1)
    assert silence(limits, 0, 0, 3 * HOUR).state == "fire"
    assert silence(limits, 2 * HOUR, 0, 3 * HOUR).state == "resolve"
    assert silence(limits, None, 0, 3 * HOUR).state == "fire"  # never a row
    late = SimpleNamespace(name="w", due=0, reason="no source yet")
    assert "no source yet" in not_estimated(limits, [late], 2 * HOUR).message
    assert not_estimated(limits, [late], HOUR // 2).state == "resolve"
    assert silence(Limits(), 0, 0, DAY) is None
    assert silence(limits, HOUR, 0, 3 * HOUR).state == "resolve"  # just so long is allowed
    assert not_estimated(limits, [late], HOUR).state == "resolve"


@pytest.fixture
def receiver():
    """A webhook that answers as told, and remembers."""
    seen, answers = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.append((dict(self.headers), body))
            self.send_response(answers.pop(0) if answers else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_port}/hook", seen=seen, answers=answers)
    server.shutdown()
    server.server_close()
    thread.join()


def bad_days(client, days, prefix):
    for day in days:
        rows, labels = rows_json(150, seed=day, day=day, prefix=f"{prefix}{day}-", shift=1.7)
        post(client, rows)
        client.post("/v1/models/m/labels", json=labels_json(rows, labels))
    settle_down(client.store)


def test_from_rows_to_a_signed_message_and_back(client, receiver):
    put_source(client)
    hook = {"url": receiver.url, "secret": "s3cret"}
    client.put("/v1/models/m/settings", json={"limits": {"error": 0.45, "windows": 2}, "webhook": hook})
    bad_days(client, [9], "a")
    assert list_alerts(client.store) == []
    bad_days(client, [8], "a")
    (alert,) = list_alerts(client.store, firing=True)
    assert (alert.rule, alert.version, alert.limit) == ("error", "v1", 0.45)
    bad_days(client, [7], "a")
    assert len(receiver.seen) == 1  # it fires once, however long it lasts
    seen, body = receiver.seen[0]
    message = json.loads(body)
    assert (message["event"], message["model"], message["rule"]) == ("fired", "m", "error")
    signed = f"{seen['webhook-id']}.{seen['webhook-timestamp']}.".encode() + body
    digest = base64.b64encode(hmac.new(b"s3cret", signed, hashlib.sha256).digest()).decode()
    assert seen["webhook-signature"] == f"v1,{digest}"
    for day in (6, 5):
        post(client, rows_json(150, seed=day, day=day, prefix=f"g{day}-")[0])
        settle_down(client.store)
    assert list_alerts(client.store, firing=True) == []
    assert json.loads(receiver.seen[1][1])["event"] == "resolved"
    assert (
        client.get("/v1/models/m/alerts").json()["alerts"][0]["resolution"].startswith("the estimated error")
    )
    text = client.get("/metrics").text
    assert 'labelfree_alerts_fired_total{model="m",rule="error"} 1.0' in text
    assert 'labelfree_alerts_firing{model="m",rule="error"} 0.0' in text
    assert 'labelfree_alert_messages_undelivered{model="m"} 0.0' in text


def test_a_message_that_cannot_be_delivered_is_retried_and_kept(lite_client, receiver):
    client, store = lite_client, lite_client.store
    put_source(client)
    client.put(
        "/v1/models/m/settings", json={"limits": {"silence_hours": 1}, "webhook": {"url": receiver.url}}
    )
    receiver.answers += [500] * TRIES
    later = now_us() + 2 * HOUR
    with pretend(later):
        Worker(store).drain()
    (message,) = list_deliveries(store, undelivered=True)
    assert (message.state, message.attempts, message.problem) == ("waiting", 1, "the webhook answered 500")
    assert message.due == later + FIRST_PAUSE
    with pretend(message.due):
        Worker(store).drain()
    (message,) = list_deliveries(store, undelivered=True)
    assert message.attempts == 2
    assert message.due - (later + FIRST_PAUSE) == 2 * FIRST_PAUSE
    for _ in range(TRIES):
        (message,) = list_deliveries(store, undelivered=True)
        if message.state == "given up":
            break
        with pretend(message.due):
            Worker(store).drain()
    assert (message.state, message.attempts) == ("given up", TRIES)
    assert client.get("/v1/models/m/alerts").json()["undelivered"][0]["body"]["rule"] == "silence"
    assert "labelfree_alert_messages_undelivered" in client.get("/metrics").text


def test_messages_go_nowhere_they_should_not():
    assert "link-local" in send(Webhook("http://169.254.169.254/latest"), 1, {"event": "fired"})
    assert "cannot be found" in send(Webhook("http://no-such-host.invalid/"), 1, {"event": "fired"})
    assert "webhook-signature" not in headers(Webhook("http://x"), 1, b"", 0)


def test_slack_gets_a_text(receiver):
    body = {"event": "fired", "model": "m", "message": "a < b"}
    assert send(Webhook(receiver.url, shape="slack"), 1, body) is None
    assert json.loads(receiver.seen[0][1]) == {"text": ":rotating_light: *m*: a &lt; b"}


def test_a_version_that_was_replaced_stops_shouting(lite_client):
    client = lite_client
    put_source(client)
    put_source(client, version="v2")
    client.put("/v1/models/m/settings", json={"limits": {"error": 0.45}})
    bad_days(client, [9], "a")
    assert len(list_alerts(client.store, firing=True)) == 1
    post(client, rows_json(150, day=5, prefix="b", version="v2")[0])
    settle_down(client.store)
    assert list_alerts(client.store, firing=True) == []


def test_retention_forgets_by_itself(lite_client):
    client = lite_client
    put_source(client)
    post(client, rows_json(40, day=20, prefix="old")[0])
    post(client, rows_json(40, day=2, prefix="new")[0])
    settle_down(client.store)
    client.put("/v1/models/m/settings", json={"retention_days": 10})
    settle_down(client.store)
    said = problem(post(client, rows_json(1, day=20, prefix="again")[0]), 422)
    assert "forgotten" in said
    assert post(client, rows_json(40, day=2, prefix="new")[0]).json()["duplicates"] == 40
    assert days_ago(20) < now_us() - 10 * DAY - SECOND
