"""Nobody gets in: tokens, scopes, hosts, origins, headers."""

import base64
import hmac

import pytest
from monitor_data import problem, rows_json, run_due_jobs, source_npz
from sqlalchemy import select
from test_api import post, put_source

from shiftgauge.errors import InputError
from shiftgauge.monitor.db import tokens
from shiftgauge.monitor.db.schema import tokens as table
from shiftgauge.monitor.periods import DAY, now_us, simulated_time
from shiftgauge.monitor.run.serve import check_host


def bearer(token):
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def guarded(lite_client, monkeypatch):
    """A server with one model and a token of each kind."""
    monkeypatch.setattr("shiftgauge.monitor.api.security.TOKEN_CHECK_SECONDS", 0.0)
    put_source(lite_client)
    make = tokens.create_token
    store = lite_client.store
    lite_client.tokens = {
        "admin": make(store, "a", ["admin"]),
        "read": make(store, "r", ["read"]),
        "ingest": make(store, "i", ["ingest"]),
        "other": make(store, "o", ["ingest", "read", "admin"], model="other"),
        "mine": make(store, "m", ["read"], model="m"),
    }
    return lite_client


CALLS = [
    ("PUT", "/v1/models/m/versions/v1/source", "admin"),
    ("POST", "/v1/models/m/predictions", "ingest"),
    ("POST", "/v1/models/m/labels", "ingest"),
    ("GET", "/v1/models/m/windows", "read"),
    ("GET", "/v1/models/m/windows/x", "read"),
    ("GET", "/v1/models/m/windows/x/report", "read"),
    ("GET", "/v1/models/m/windows/x/revisions", "read"),
    ("GET", "/v1/models/m/label-requests", "ingest"),
    ("POST", "/v1/models/m/label-requests", "ingest"),
    ("GET", "/v1/models/m/alerts", "read"),
    ("POST", "/v1/models/m/alerts/7", "admin"),
    ("GET", "/v1/models/m/settings", "read"),
    ("GET", "/v1/models/m/suggested-limits", "read"),
    ("PUT", "/v1/models/m/settings", "admin"),
    ("DELETE", "/v1/models/m/rows?id=x", "admin"),
    ("GET", "/v1/models/m", "read"),
    ("GET", "/v1/models", "read"),
    ("GET", "/v1/tokens", "admin"),
    ("GET", "/v1/audit", "admin"),
    ("GET", "/metrics", "read"),
]


def test_every_call_is_in_the_list(guarded):
    known = {
        (m, p.split("?")[0].replace("/m", "/{model}", 1) if "/models/m" in p else p) for m, p, _ in CALLS
    }
    shapes = {
        (
            m,
            p.replace("/x", "/{window}")
            .replace("/7", "/{alert}")
            .replace("versions/v1", "versions/{version}"),
        )
        for m, p in known
    }
    shapes = {(m, p.replace("/v1/{model}odels/m", "/v1/models/{model}")) for m, p in shapes}
    shapes = {(m, "/v1/models" if p == "/v1/{model}odels" else p) for m, p in shapes}
    schema = guarded.get("/openapi.json").json()["paths"]
    served = {(method.upper(), path) for path, methods in schema.items() for method in methods}
    served -= {("GET", "/healthz"), ("GET", "/readyz")}
    assert served <= {(m, p.replace("/{model}etrics", "/metrics")) for m, p in shapes}


@pytest.mark.parametrize(("method", "path", "scope"), CALLS)
def test_scopes(guarded, method, path, scope):
    """No token, a wrong one, one without the scope, one for another model: refused; the right one: not."""
    held = guarded.tokens
    problem(guarded.request(method, path), 401)
    problem(guarded.request(method, path, headers=bearer("sgm_000000000000_" + "x" * 43)), 401)
    right = guarded.request(method, path, headers=bearer(held[scope]))
    assert right.status_code not in (401, 403)
    assert guarded.request(method, path, headers=bearer(held["admin"])).status_code not in (401, 403)
    wrong = "read" if scope != "read" else "ingest"
    assert "scope" in problem(guarded.request(method, path, headers=bearer(held[wrong])), 403)
    if "/m" in path and "/models/" in path:
        problem(guarded.request(method, path, headers=bearer(held["other"])), 403)


def test_a_token_of_one_model_sees_one_model(guarded):
    guarded.put(
        "/v1/models/secret/versions/v1/source", content=source_npz(), headers=bearer(guarded.tokens["admin"])
    )
    listed = guarded.get("/v1/models", headers=bearer(guarded.tokens["mine"])).text
    assert '"m"' in listed
    assert "secret" not in listed
    assert "secret" not in guarded.get("/metrics", headers=bearer(guarded.tokens["mine"])).text
    assert "secret" in guarded.get("/metrics", headers=bearer(guarded.tokens["read"])).text


def test_a_browser_sends_the_token_as_a_password(guarded):
    answer = guarded.get("/v1/models")
    assert "Basic" in answer.headers["www-authenticate"]
    text = base64.b64encode(f"anyone:{guarded.tokens['read']}".encode()).decode()
    assert guarded.get("/v1/models", headers={"authorization": f"Basic {text}"}).status_code == 200
    problem(guarded.get("/v1/models", headers={"authorization": "Basic !!!"}), 401)


def test_tokens_are_kept_as_hashes_and_compared_in_constant_time(guarded, monkeypatch):
    with guarded.store.read() as connection:
        held = connection.execute(select(table)).all()
    everything = repr(held)
    for token in guarded.tokens.values():
        assert token.split("_", 2)[2] not in everything
    seen = []
    true = hmac.compare_digest
    monkeypatch.setattr(
        "shiftgauge.monitor.db.tokens.hmac.compare_digest", lambda a, b: seen.append(1) or true(a, b)
    )
    tokens.check_token(guarded.store, "nonsense")
    tokens.check_token(guarded.store, guarded.tokens["read"])
    assert len(seen) == 2  # also where there is no such token


def test_revoked_and_expired_tokens_do_not_hold(guarded):
    token = guarded.tokens["read"]
    tokens.revoke_token(guarded.store, token.split("_")[1])
    problem(guarded.get("/v1/models", headers=bearer(token)), 401)
    short = tokens.create_token(guarded.store, "s", ["read"], days=1)
    assert guarded.get("/v1/models", headers=bearer(short)).status_code == 200
    with simulated_time(now_us() + 2 * DAY):
        problem(guarded.get("/v1/models", headers=bearer(short)), 401)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""])
def test_other_hosts_are_refused_without_tokens(lite_client, host):
    problem(lite_client.get("/v1/models", headers={"host": host}), 421)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8123", "[::1]:80", "LOCALHOST:1"])
def test_our_own_names_are_answered(lite_client, host):
    assert lite_client.get("/v1/models", headers={"host": host}).status_code == 200


def test_requests_of_other_sites_are_refused(lite_client):
    put_source(lite_client)
    rows, _ = rows_json(1)
    problem(post(lite_client, rows, headers={"origin": "https://evil.example"}), 403)
    problem(post(lite_client, rows, headers={"origin": "null"}), 403)
    problem(post(lite_client, rows, headers={"sec-fetch-site": "cross-site"}), 403)
    problem(
        post(lite_client, rows, headers={"sec-fetch-site": "same-site"}), 403
    )  # another port of this machine
    assert post(lite_client, rows, headers={"origin": "http://127.0.0.1"}).status_code == 202
    assert post(lite_client, rows, headers={"sec-fetch-site": "same-origin"}).status_code == 202


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:8123", "http://127.0.0.1:8123", 202),
        ("localhost", "http://localhost:80", 202),
        ("LOCALHOST:80", "http://localhost", 202),
        ("[::1]:8123", "http://[::1]:8123", 202),
        ("127.0.0.1:8123", "https://127.0.0.1:8123", 403),  # another scheme
        ("127.0.0.1:8123", "http://127.0.0.1", 403),  # another port
        ("127.0.0.1", "http://127.0.0.1:3000", 403),
        ("127.0.0.1", "https://127.0.0.1", 403),
        ("127.0.0.1:443", "https://127.0.0.1", 403),
        ("localhost", "http://127.0.0.1", 403),  # another host
        ("localhost", "http://localhost.evil.example", 403),
        ("localhost", "http://localhost:x", 403),
        ("localhost:x", "http://localhost:y", 403),
        ("localhost", "", 403),
    ],
)
def test_an_origin_is_a_scheme_a_host_and_a_port(lite_client, host, origin, status):
    put_source(lite_client)
    rows, _ = rows_json(1)
    assert post(lite_client, rows, headers={"host": host, "origin": origin}).status_code == status


def test_a_page_elsewhere_cannot_request_labels(lite_client):
    """What an <img> or a form of another site can send changes nothing."""
    client = lite_client
    put_source(client)
    post(client, rows_json(200)[0])
    run_due_jobs(client.store)
    path = "/v1/models/m/label-requests"
    image = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    problem(client.get(path, params={"labels": 25}, headers=image), 404)
    problem(client.post(path, json={"labels": 25}, headers={"origin": "http://127.0.0.1:3000"}), 403)
    assert len(client.post(path, json={"labels": 50}).json()["rows"]) == 50


def test_every_answer_has_safe_headers_and_no_cookie(lite_client):
    for path in ("/v1/models", "/nope", "/docs", "/metrics", "/healthz"):
        answer = lite_client.get(path)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe-eval" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in answer.headers


def test_the_page_of_the_api_fetches_nothing_from_elsewhere_and_names_every_route(lite_client):
    page = lite_client.get("/docs").text
    assert "http://" not in page
    assert "https://" not in page
    for path in lite_client.get("/openapi.json").json()["paths"]:
        assert path in page


def test_beyond_loopback_only_with_tokens(lite):
    check_host(lite, "127.0.0.1")
    check_host(lite, "::1")
    with pytest.raises(InputError, match="without tokens"):
        check_host(lite, "0.0.0.0")
    tokens.create_token(lite, "x", ["read"])
    check_host(lite, "0.0.0.0")


def test_internal_errors_say_nothing(lite_client, monkeypatch):
    def broken(*_):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("shiftgauge.monitor.api.data_out.list_models", broken)
    assert "secret" not in problem(lite_client.get("/v1/models"), 500)
