"""Alerts as messages: signed, retried, kept; when nothing arrives; see test_alert_rule for errors."""

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
import standardwebhooks
from monitor_data import SECRET, days_ago, labels_json, problem, rows_json, run_due_jobs
from test_api import post, put_source

from shiftgauge.monitor.alerts.delivery import FIRST_PAUSE, TRIES, send
from shiftgauge.monitor.alerts.rules import not_estimated, silence
from shiftgauge.monitor.api.security import Authenticator
from shiftgauge.monitor.db.tokens import create_token
from shiftgauge.monitor.periods import DAY, HOUR, SECOND, iso, now_us, simulated_time
from shiftgauge.monitor.run.worker import Worker
from shiftgauge.monitor.settings import AlertLimits, Webhook
from shiftgauge.monitor.views import list_alerts, list_deliveries


def test_silence_and_windows_that_were_not_estimated():
    limits = AlertLimits(silence_hours=2, not_estimated_hours=1)
    assert silence(limits, 0, 0, 3 * HOUR).state == "fire"
    assert silence(limits, 2 * HOUR, 0, 3 * HOUR).state == "resolve"
    assert silence(limits, None, 0, 3 * HOUR).state == "fire"  # never a row
    late = SimpleNamespace(name="w", due=0, reason="no source yet")
    assert "no source yet" in not_estimated(limits, [late], 2 * HOUR).message
    assert not_estimated(limits, [late], HOUR // 2).state == "resolve"
    assert silence(AlertLimits(), 0, 0, DAY) is None
    assert silence(limits, HOUR, 0, 3 * HOUR).state == "resolve"  # just so long is allowed
    assert not_estimated(limits, [late], HOUR).state == "resolve"


@pytest.fixture
def receiver(monkeypatch):
    """A webhook on this machine, which whoever runs the server allows; it answers as told, and remembers."""
    monkeypatch.setenv("SHIFTGAUGE_WEBHOOK_NETWORKS", "192.0.2.0/24, 127.0.0.0/8")
    seen, answers = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            seen.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status = answers.pop(0) if answers else 200
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
            self.end_headers()

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield SimpleNamespace(
        url=f"http://127.0.0.1:{server.server_port}/hook", port=server.server_port, seen=seen, answers=answers
    )
    server.shutdown()
    server.server_close()
    thread.join()


def delivered(client, url, **more):
    """Let an alert fire whose message goes there; what the alerts page knows of messages that did not arrive."""
    settings = {"limits": {"silence_hours": 1}, "webhook": {"url": url, **more}}
    client.put("/v1/models/m/settings", json=settings).raise_for_status()
    with simulated_time(now_us() + 2 * HOUR):
        Worker(client.store).drain()
    return [one["problem"] for one in client.get("/v1/models/m/alerts").json()["undelivered"]]


def bad_days(client, days, prefix):
    for day in days:
        rows, labels = rows_json(150, seed=day, day=day, prefix=f"{prefix}{day}-", shift=1.7)
        post(client, rows)
        client.post("/v1/models/m/labels", json=labels_json(rows, labels))
    run_due_jobs(client.store)


def test_from_rows_to_a_signed_message_and_back(client, receiver):
    put_source(client)
    hook = {"url": receiver.url, "secret": SECRET}
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
    assert message["window"] == f"{iso(days_ago(8))[:10]}.v1"
    assert message["window"] not in message["message"]  # which is for people, and has the date
    assert standardwebhooks.Webhook(SECRET).verify(body, seen) == message
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(SECRET).verify(body + b" ", seen)
    for day in (6, 5):
        post(client, rows_json(150, seed=day, day=day, prefix=f"g{day}-")[0])
        run_due_jobs(client.store)
    assert list_alerts(client.store, firing=True) == []
    assert json.loads(receiver.seen[1][1])["event"] == "resolved"
    assert (
        client.get("/v1/models/m/alerts").json()["alerts"][0]["resolution"].startswith("the estimated error")
    )
    text = client.get("/metrics").text
    assert 'shiftgauge_alerts_fired_total{model="m",rule="error"} 1.0' in text
    assert 'shiftgauge_alerts_firing{model="m",rule="error"} 0.0' in text
    assert 'shiftgauge_alert_messages_undelivered{model="m"} 0.0' in text


def test_a_message_that_cannot_be_delivered_is_retried_and_kept(lite_client, receiver):
    client, store = lite_client, lite_client.store
    put_source(client)
    client.put(
        "/v1/models/m/settings", json={"limits": {"silence_hours": 1}, "webhook": {"url": receiver.url}}
    )
    receiver.answers += [500] * TRIES
    later = now_us() + 2 * HOUR
    with simulated_time(later):
        Worker(store).drain()
    (message,) = list_deliveries(store, undelivered=True)
    assert (message.state, message.attempts, message.problem) == ("waiting", 1, "the webhook answered 500")
    assert message.due == later + FIRST_PAUSE
    with simulated_time(message.due):
        Worker(store).drain()
    (message,) = list_deliveries(store, undelivered=True)
    assert message.attempts == 2
    assert message.due - (later + FIRST_PAUSE) == 2 * FIRST_PAUSE
    for _ in range(TRIES):
        (message,) = list_deliveries(store, undelivered=True)
        if message.state == "given up":
            break
        with simulated_time(message.due):
            Worker(store).drain()
    assert (message.state, message.attempts) == ("given up", TRIES)
    assert client.get("/v1/models/m/alerts").json()["undelivered"][0]["body"]["rule"] == "silence"
    assert "shiftgauge_alert_messages_undelivered" in client.get("/metrics").text


PRIVATE = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.100.100.200",  # carrier-grade NAT; a cloud's metadata
    "0.0.0.0",
    "2852039166",  # 169.254.169.254 as a number
    "224.0.0.1",
    "[::1]",
    "[::]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fec0::1]",
    "[ff02::1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:10.0.0.1]",
    "[::127.0.0.1]",
    "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::1]",  # 6to4 of 127.0.0.1
    "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",  # Teredo
    "localhost",
]


def test_messages_do_not_go_to_private_addresses(lite_client, monkeypatch):
    monkeypatch.delenv("SHIFTGAUGE_WEBHOOK_NETWORKS", raising=False)
    for number, host in enumerate(PRIVATE):
        settings = {"limits": {"silence_hours": 1}, "webhook": {"url": f"http://{host}:9/hook"}}
        lite_client.put(f"/v1/models/m{number}/settings", json=settings).raise_for_status()
    with simulated_time(now_us() + 2 * HOUR):
        Worker(lite_client.store).drain()
    for number, host in enumerate(PRIVATE):
        (late,) = lite_client.get(f"/v1/models/m{number}/alerts").json()["undelivered"]
        refused = ("not an address of the public internet", "cannot be found")
        assert any(word in late["problem"] for word in refused), (host, late["problem"])


def test_only_what_was_allowed_is_allowed(lite_client, receiver, monkeypatch):
    monkeypatch.setenv("SHIFTGAUGE_WEBHOOK_NETWORKS", "10.0.0.0/8")
    (problem,) = delivered(lite_client, receiver.url)
    assert "SHIFTGAUGE_WEBHOOK_NETWORKS=127.0.0.1" in problem
    assert receiver.seen == []


def test_public_addresses_pass(monkeypatch):
    """The check itself lets them through: what fails is the connection, which nobody here accepts."""
    monkeypatch.setattr(socket, "create_connection", _nobody)
    for host in ("8.8.8.8", "[2606:4700:4700::1111]", "[64:ff9b::8.8.8.8]", "[::ffff:8.8.8.8]"):
        said = send(Webhook(url=f"https://{host}/hook"), 1, {"event": "fired"})
        assert said.startswith("ConnectError"), (host, said)


def _nobody(*_, **__):
    raise ConnectionRefusedError("nobody is here")


def test_a_redirect_is_not_followed(lite_client, receiver):
    receiver.answers.append(307)
    assert delivered(lite_client, receiver.url) == ["the webhook answered 307"]
    assert len(receiver.seen) == 1


def test_the_name_is_resolved_once_and_the_checked_address_called(lite_client, receiver, monkeypatch):
    """A name that points to an allowed address when it is checked, and elsewhere afterwards, leads nowhere else."""
    real, asked = socket.getaddrinfo, []

    def resolve(host, *more, **words):
        if host in ("hook.example", b"hook.example"):
            asked.append(host)
            host = "127.0.0.1" if len(asked) == 1 else "192.0.2.1"
        return real(host, *more, **words)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert delivered(lite_client, f"http://hook.example:{receiver.port}/hook") == []
    assert len(asked) == 1
    (seen, _) = receiver.seen[0]
    assert seen["host"] == f"hook.example:{receiver.port}"


def test_the_certificate_is_checked_against_the_name(lite_client, receiver, tmp_path):
    """The request goes to an address, but the server is asked for, and must prove, the host's name."""
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    openssl = shutil.which("openssl") or pytest.skip("no openssl here")
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    subprocess.run(
        [openssl, *words, "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60
    )
    names = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.sni_callback = lambda _, name, __: names.append(name)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_one_handshake, args=(listener, context), daemon=True)
        thread.start()
        (problem,) = delivered(lite_client, f"https://localhost:{listener.getsockname()[1]}/hook")
        thread.join(30)
    assert "certificate" in problem.lower()  # signed by itself: nobody vouches for it
    assert names == ["localhost"]


def _one_handshake(listener, context):
    with contextlib.suppress(OSError):
        caller, _ = listener.accept()
        with caller:
            context.wrap_socket(caller, server_side=True)


@pytest.mark.parametrize(
    "secret", ["s3cret", "whsec_", "whsec_dG9vIHNob3J0", "whsec_not base64!", 7, "x" * 600]
)
def test_a_secret_that_others_could_not_verify_is_refused(lite_client, secret):
    hook = {"url": "https://example.org", "secret": secret}
    said = problem(lite_client.put("/v1/models/m/settings", json={"webhook": hook}), 422)
    assert "whsec_" in said
    assert str(secret) not in said or secret == "whsec_"


def test_without_a_secret_there_is_no_signature(lite_client, receiver):
    assert delivered(lite_client, receiver.url) == []
    assert "webhook-signature" not in receiver.seen[0][0]


def test_a_host_that_is_not_there_is_said():
    assert "cannot be found" in send(Webhook(url="http://no-such-host.invalid/"), 1, {"event": "fired"})


def test_slack_gets_a_text(receiver):
    body = {"event": "fired", "model": "m", "message": "a < b"}
    assert send(Webhook(url=receiver.url, shape="slack"), 1, body) is None
    assert json.loads(receiver.seen[0][1]) == {"text": ":rotating_light: *m*: a &lt; b"}


def test_a_version_that_was_replaced_stops_shouting(lite_client):
    client = lite_client
    put_source(client)
    put_source(client, version="v2")
    client.put("/v1/models/m/settings", json={"limits": {"error": 0.45}})
    bad_days(client, [9], "a")
    assert len(list_alerts(client.store, firing=True)) == 1
    post(client, rows_json(150, day=5, prefix="b", version="v2")[0])
    run_due_jobs(client.store)
    assert list_alerts(client.store, firing=True) == []


def test_versions_side_by_side_keep_their_alerts_from_day_to_day(lite_client):
    """Alerts are evaluated after the first version's window of a day and before the second's."""
    for version in ("v1", "v2"):
        put_source(lite_client, version=version)
    lite_client.put("/v1/models/m/settings", json={"limits": {"error": 0.3}})
    for day in (9, 8):
        for version in ("v1", "v2"):
            rows, _ = rows_json(150, day=day, prefix=f"{day}-{version}-", version=version, shift=1.7)
            post(lite_client, rows)
        run_due_jobs(lite_client.store)
    assert len(list_alerts(lite_client.store, firing=True)) == 2
    assert list_alerts(lite_client.store, firing=False) == []


def test_retention_forgets_by_itself(lite_client):
    client = lite_client
    put_source(client)
    post(client, rows_json(40, day=20, prefix="old")[0])
    post(client, rows_json(40, day=2, prefix="new")[0])
    run_due_jobs(client.store)
    client.put("/v1/models/m/settings", json={"retention_days": 10})
    run_due_jobs(client.store)
    said = problem(post(client, rows_json(1, day=20, prefix="again")[0]), 422)
    assert "erased" in said
    assert post(client, rows_json(40, day=2, prefix="new")[0]).json()["duplicates"] == 40
    assert days_ago(20) < now_us() - 10 * DAY - SECOND


def test_an_alert_is_acknowledged_muted_and_commented_on(client, receiver):
    """While it is muted no message is sent, also if it resolves and fires again; the audit log says who did it."""

    def change(**values):
        return client.post(f"/v1/models/m/alerts/{number}", json=values)

    assert delivered(client, receiver.url) == []
    (alert,) = list_alerts(client.store, firing=True)
    number, now = alert.id, now_us()
    assert (len(receiver.seen), alert.acknowledged, alert.muted_until) == (1, None, None)
    answer = change(acknowledged=True, muted_until=iso(now + DAY), comment="<b>deploy</b> of v2").json()
    (shown,) = answer["alerts"]
    assert shown["muted_until"] == iso(now + DAY)
    assert (shown["comment"], shown["comment_by"]) == ("<b>deploy</b> of v2", "(no token)")
    assert shown["acknowledged"]
    for hours, firing in ((3, False), (6, True), (30, False)):
        with simulated_time(now + hours * HOUR):
            if not firing:
                put_source(client)
                post(client, rows_json(20, prefix=f"h{hours}-")[0]).raise_for_status()
            Worker(client.store).drain()
            assert bool(list_alerts(client.store, firing=True)) == firing
    assert [json.loads(body)["event"] for _, body in receiver.seen] == ["fired", "resolved"]
    assert change(acknowledged=False, comment="").json()["alerts"][-1]["comment"] is None
    assert "'99'" in problem(client.post("/v1/models/m/alerts/99", json={"acknowledged": True}), 404)
    assert "did you mean 'comment'" in problem(change(coment="x"), 422)
    changes = client.get("/v1/audit").json()["changes"]
    mine = [one["detail"] for one in changes if one["action"] == "alert"]
    assert [one["acknowledged"] for one in mine] == [False, True]
    assert {"settings", "source", "alert"} <= {one["action"] for one in changes}


def test_an_alert_that_fires_while_it_is_muted_is_sent_when_the_mute_ends(client, receiver):
    """And not at all where it resolved before."""
    delivered(client, receiver.url)
    (alert,) = list_alerts(client.store, firing=True)
    now = now_us()
    mute = {"muted_until": iso(now + DAY)}
    client.post(f"/v1/models/m/alerts/{alert.id}", json=mute).raise_for_status()

    def events():
        return [json.loads(body)["event"] for _, body in receiver.seen]

    put_source(client)
    for hours, arrives, expected in (
        (3, True, ["fired"]),  # it resolves
        (6, False, ["fired"]),  # it fires again
        (9, True, ["fired"]),
        (12, False, ["fired"]),
        (25, False, ["fired", "resolved", "fired"]),
        (26, True, ["fired", "resolved", "fired", "resolved"]),
    ):
        with simulated_time(now + hours * HOUR):
            if arrives:
                post(client, rows_json(20, prefix=f"h{hours}-")[0]).raise_for_status()
            Worker(client.store).drain()
        assert events() == expected
    last = [json.loads(body) for _, body in receiver.seen][2]
    assert (last["alert"], last["message"][:13]) == (3, "no rows since")


def test_a_mute_that_is_undone_sends_what_waited(lite_client, receiver):
    """Also that an older alert of this rule was resolved: a mute is of a rule, however often it fires."""
    delivered(lite_client, receiver.url)
    (alert,) = list_alerts(lite_client.store, firing=True)
    now, path = now_us(), "/v1/models/m/alerts/{}"
    lite_client.post(path.format(alert.id), json={"muted_until": iso(now + DAY)}).raise_for_status()
    put_source(lite_client)
    post(lite_client, rows_json(20)[0]).raise_for_status()
    for hours in (0.1, 3):
        with simulated_time(now + int(hours * HOUR)):
            Worker(lite_client.store).drain()
    assert len(receiver.seen) == 1
    (alert,) = list_alerts(lite_client.store, firing=True)
    lite_client.post(path.format(alert.id), json={"muted_until": iso(now)}).raise_for_status()
    with simulated_time(now + 3 * HOUR + SECOND):
        Worker(lite_client.store).drain()
    messages = [json.loads(body) for _, body in receiver.seen]
    assert [(one["alert"], one["event"]) for one in messages] == [(1, "fired"), (1, "resolved"), (2, "fired")]


def test_alerts_are_read_from_estimated_windows_however_many_are_still_open(lite_client):
    """With hourly windows and days of lateness, more windows are open than are looked at."""
    client = lite_client
    put_source(client)
    settings = {"window": "hour", "lateness_minutes": 4 * 24 * 60, "limits": {"error": 0.3}}
    client.put("/v1/models/m/settings", json=settings).raise_for_status()
    post(client, rows_json(150, day=9, shift=1.7)[0]).raise_for_status()
    row = rows_json(1)[0][0]
    now = now_us()
    times = [iso(now - hours * HOUR) for hours in range(70)]
    post(client, [{**row, "id": f"h{i}", "time": time} for i, time in enumerate(times)]).raise_for_status()
    run_due_jobs(client.store)
    (alert,) = list_alerts(client.store, firing=True)
    assert alert.rule == "error"
    assert 'shiftgauge_estimated_error_ratio{method="auto",model="m"' in client.get("/metrics").text


def test_each_change_of_an_alert_has_its_own_name(lite_client, receiver):
    delivered(lite_client, receiver.url)
    tokens = {name: create_token(lite_client.store, name, ["admin"]) for name in ("ann", "bob", "cem")}
    lite_client.app.state.authenticator = Authenticator(lite_client.store)
    header = {name: {"authorization": f"Bearer {text}"} for name, text in tokens.items()}
    path, until = "/v1/models/m/alerts/1", iso(now_us() + DAY)
    lite_client.post(path, json={"acknowledged": True}, headers=header["ann"]).raise_for_status()
    lite_client.post(path, json={"muted_until": until}, headers=header["bob"]).raise_for_status()
    lite_client.post(path, json={"comment": "seen"}, headers=header["cem"]).raise_for_status()
    # A form that bob saves sends the comment back, and the same button twice acknowledges once.
    form = {"comment": "seen", "acknowledged": "yes", "mute": ""}
    lite_client.post("/models/m/alerts/1", data=form, headers=header["bob"])
    (alert,) = lite_client.post(path, json={}, headers=header["ann"]).json()["alerts"]
    assert (alert["acknowledged_by"], alert["muted_by"], alert["comment_by"]) == ("ann", "bob", "cem")
    page = lite_client.get("/alerts", headers=header["ann"]).text
    assert all(f"by <bdi>{name}</bdi>" in page for name in ("ann", "bob"))
    assert "<bdi>cem</bdi>: seen" in page


def test_rows_of_long_ago_are_not_overdue_when_they_arrive(lite_client):
    """Alerts are evaluated before windows are estimated; a window whose rows have just come is not late."""
    put_source(lite_client)
    lite_client.put("/v1/models/m/settings", json={"limits": {"not_estimated_hours": 1}}).raise_for_status()
    post(lite_client, rows_json(40, day=9)[0]).raise_for_status()
    Worker(lite_client.store).drain()
    run_due_jobs(lite_client.store)
    assert list_alerts(lite_client.store) == []
    post(lite_client, rows_json(40, day=8, version="v2", prefix="s")[0]).raise_for_status()
    for seconds in (10, 120):
        with simulated_time(now_us() + seconds * SECOND):
            Worker(lite_client.store).drain()
    (alert,) = list_alerts(lite_client.store)
    assert "no source yet" in alert.message


@pytest.mark.parametrize("number", ["0", str(2**63), "9" * 30])
def test_a_number_that_no_alert_can_have_is_refused(lite_client, number):
    put_source(lite_client)
    for prefix in ("", "/v1"):
        assert lite_client.post(f"{prefix}/models/m/alerts/{number}", json={}).status_code == 422


def test_the_audit_log_names_the_token_and_no_row(lite_client):
    store = lite_client.store
    put_source(lite_client)
    post(lite_client, rows_json(20, prefix="person-")[0])
    token = create_token(store, "on-call", ["admin"], model="m")
    other = create_token(store, "other", ["admin"], model="n")
    reader = create_token(store, "reader", ["read"])
    lite_client.app.state.authenticator = Authenticator(store)  # which looks for tokens anew
    header = {
        name: {"authorization": f"Bearer {text}"}
        for name, text in (("m", token), ("n", other), ("r", reader))
    }
    lite_client.delete("/v1/models/m/rows", params={"id": "person-3"}, headers=header["m"]).raise_for_status()
    lite_client.put("/v1/models/m/settings", json={"level": 0.8}, headers=header["m"]).raise_for_status()
    changes = lite_client.get("/v1/audit", headers=header["m"]).json()["changes"]
    assert [(one["who"], one["action"]) for one in changes[:2]] == [
        ("on-call", "settings"),
        ("on-call", "erase"),
    ]
    assert changes[0]["detail"] == {"changed": "level"}
    assert "person-3" not in json.dumps(changes)
    assert [one["action"] for one in lite_client.get("/v1/audit", headers=header["n"]).json()["changes"]] == [
        "create-token"
    ]
    problem(lite_client.get("/v1/audit", headers=header["r"]), 403)
