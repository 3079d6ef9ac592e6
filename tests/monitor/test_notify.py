"""Alerts through apprise: sent to real servers on this machine, kept secret, and only where webhooks may go."""

import json
import logging
import socketserver
import threading
from types import SimpleNamespace

import pytest
from monitor_data import problem
from test_alerts import receiver  # noqa: F401 (a fixture)

from shiftgauge.monitor.alerts.delivery import notify
from shiftgauge.monitor.periods import HOUR, now_us, simulated_time
from shiftgauge.monitor.run.export import export
from shiftgauge.monitor.run.worker import Worker
from shiftgauge.monitor.settings import Notification
from shiftgauge.monitor.views import list_alerts, list_deliveries

pytest.importorskip("apprise")
TOKEN = "T0kenThatNobodyMayRead"
BODY = {"event": "fired", "model": "m", "message": "no rows since noon"}


def fire(client, later=2):
    """Let the alert about silence fire, and deliver what is due."""
    with simulated_time(now_us() + later * HOUR):
        Worker(client.store).drain()


def put(client, services, **more):
    given = {"limits": {"silence_hours": 1}, "notify": services, **more}
    return client.put("/v1/models/m/settings", json=given)


@pytest.mark.slow
def test_every_receiver_gets_the_alert_once(client, receiver):  # noqa: F811
    """Two services and the webhook; one that refuses is tried again alone."""
    services = [
        {"name": name, "url": f"json://127.0.0.1:{receiver.port}/{TOKEN}/{name}"} for name in ("one", "two")
    ]
    put(client, services, webhook={"url": receiver.url}).raise_for_status()
    receiver.answers += [200, 500, 200]  # the webhook first, then the services in their order
    fire(client)
    bodies = [json.loads(body) for _, body in receiver.seen]
    assert len(bodies) == 3
    assert bodies[0]["event"] == "fired"
    for body in bodies[1:]:
        assert (body["title"], body["type"]) == ("m: alert fired", "failure")
        assert body["message"].startswith("no rows since")
    (late,) = list_deliveries(client.store, undelivered=True)
    assert (late.destination, late.state) == ("one", "waiting")
    assert late.problem == "one (json): the message was not accepted: status 500"
    with simulated_time(late.due):
        Worker(client.store).drain()
    assert list_deliveries(client.store, undelivered=True) == []
    assert len(receiver.seen) == 4


@pytest.mark.slow
def test_a_service_that_was_removed_is_given_up(lite_client, receiver):  # noqa: F811
    put(lite_client, [{"name": "one", "url": f"json://127.0.0.1:{receiver.port}"}]).raise_for_status()
    receiver.answers.append(503)
    fire(lite_client)
    lite_client.put("/v1/models/m/settings", json={"notify": []}).raise_for_status()
    (late,) = list_deliveries(lite_client.store, undelivered=True)
    with simulated_time(late.due):
        Worker(lite_client.store).drain()
    (late,) = list_deliveries(lite_client.store, undelivered=True)
    assert (late.state, late.problem) == ("given up", "the model has no one any more")


@pytest.mark.slow
def test_addresses_that_nobody_allowed_are_refused(lite_client, receiver, monkeypatch):  # noqa: F811
    """Also behind a name, behind a redirect, and by mail."""
    monkeypatch.setenv("SHIFTGAUGE_WEBHOOK_NETWORKS", "10.0.0.0/8")
    for url in (
        f"json://127.0.0.1:{receiver.port}",
        f"json://localhost:{receiver.port}",
        f"mailto://user:word@example.org?smtp=127.0.0.1&port={receiver.port}&mode=insecure&to=a@example.org",
    ):
        said = notify(Notification(name="one", url=url), BODY)
        assert "not an address of the public internet" in said, url
    assert receiver.seen == []
    said = notify(Notification(name="one", url="syslog://"), BODY)
    assert "not permitted" in said


@pytest.mark.slow
def test_a_redirect_to_a_private_address_is_refused(receiver, monkeypatch):  # noqa: F811
    """The first address is allowed, the one that it redirects to is not."""
    monkeypatch.setenv("SHIFTGAUGE_WEBHOOK_NETWORKS", "127.0.0.2/32")

    class Redirect(socketserver.StreamRequestHandler):
        def handle(self):
            self.rfile.readline()
            to = f"http://127.0.0.1:{receiver.port}/"
            self.wfile.write(f"HTTP/1.1 307 x\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode())

    with socketserver.TCPServer(("127.0.0.2", 0), Redirect) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"json://127.0.0.2:{server.server_address[1]}"
        said = notify(Notification(name="one", url=url), BODY)
        server.shutdown()
    assert "the host is 127.0.0.1" in said
    assert receiver.seen == []


class Smtp(socketserver.StreamRequestHandler):
    """Just enough of RFC 5321 to receive a message."""

    def handle(self):
        self.wfile.write(b"220 here\r\n")
        in_data = False
        for line in self.rfile:
            self.server.lines.append(line.decode().rstrip())
            if in_data:
                if line == b".\r\n":
                    in_data = False
                    self.wfile.write(b"250 kept\r\n")
                continue
            word = line[:4].upper()
            in_data = word == b"DATA"
            self.wfile.write(
                {b"DATA": b"354 go on\r\n", b"QUIT": b"221 bye\r\n", b"AUTH": b"235 yes\r\n"}.get(
                    word, b"250-here\r\n250 AUTH PLAIN\r\n" if word == b"EHLO" else b"250 ok\r\n"
                )
            )
            if word == b"QUIT":
                return


@pytest.mark.slow
def test_an_email_arrives(monkeypatch):
    monkeypatch.setenv("SHIFTGAUGE_WEBHOOK_NETWORKS", "127.0.0.0/8")
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Smtp) as server:
        server.daemon_threads, server.lines = True, []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = "smtp=127.0.0.1&mode=insecure&from=monitor@example.org&to=team@example.org"
        url = f"mailto://user:word@example.org:{server.server_address[1]}?{words}"
        assert notify(Notification(name="mail", url=url), BODY) is None
        server.shutdown()
    text = "\n".join(server.lines)
    assert "rcpt to:<team@example.org>" in text.lower()
    assert "Subject: m: alert fired" in text


def test_urls_are_never_shown_again(lite_client, receiver, tmp_path, caplog):  # noqa: F811
    """Not by the API, the audit log, the logs, the messages that failed, nor the export."""
    caplog.set_level(logging.DEBUG)
    client, url = lite_client, f"json://user:{TOKEN}@127.0.0.1:{receiver.port}/{TOKEN}?+X-Key={TOKEN}"
    shown = put(client, [{"name": "one", "url": url}])
    assert shown.json()["notify"] == [{"name": "one", "service": "json"}]
    receiver.answers.append(500)
    fire(client)
    assert len(receiver.seen) == 1
    export(client.store, tmp_path / "out")
    texts = [
        client.get(f"/v1/{path}").text
        for path in ("models/m/settings", "models/m/alerts", "audit", "models/m")
    ]
    for text in [
        *texts,
        shown.text,
        caplog.text,
        client.get("/metrics").text,
        repr(list_alerts(client.store)),
    ]:
        assert TOKEN not in text
    for file in (tmp_path / "out").rglob("*"):
        assert file.is_dir() or TOKEN.encode() not in file.read_bytes()


def test_what_is_shown_can_be_sent_back(lite_client):
    """An entry without a URL keeps that of its name; entries that are left out are removed."""
    client = lite_client
    put(client, [{"name": n, "url": f"json://{n}.example.org"} for n in ("one", "two")]).raise_for_status()
    shown = client.get("/v1/models/m/settings").json()
    again = client.put("/v1/models/m/settings", json={**shown, "notify": shown["notify"][1:]})
    assert [one["name"] for one in again.raise_for_status().json()["notify"]] == ["two"]
    row = SimpleNamespace(**client.get("/v1/audit").json()["changes"][0])
    assert (row.action, row.detail["changed"]) == ("settings", "notify")


@pytest.mark.parametrize(
    ("services", "said"),
    [
        ([{"name": "one", "url": f"nothing://{TOKEN}"}], "apprise cannot read"),
        ([{"name": "one", "url": f"slack://{TOKEN}"}], "apprise cannot read"),
        ([{"name": "one", "url": 7}], "apprise cannot read"),
        ([{"name": "one"}], "has no url yet"),
        ([{"name": "a b", "url": "json://a"}], "notification name"),
        ([{"name": "one", "url": "json://a"}, {"name": "one", "url": "json://b"}], "the same name"),
        ([{"name": "one", "url": "json://a", "to": 1}], "'to' is not known"),
        ([f"json://{TOKEN}"], "wanted objects"),
        ([{"name": f"n{i}", "url": "json://a"} for i in range(11)], "at most 10"),
    ],
)
def test_what_cannot_be_sent_to_is_refused(lite_client, services, said):
    detail = problem(put(lite_client, services), 422)
    assert said in detail
    assert TOKEN not in detail
