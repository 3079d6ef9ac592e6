"""Every call of the OpenAPI file with arguments and bodies of every kind: an answer, never a 500."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from monitor_data import rows_json, run_due_jobs, source_npz
from test_api import arrow_bytes, post, put_source, to_table

from shiftgauge.monitor.settings import Settings

WORDS = ["m", "v1", "nan", "-1", "1e999", "2026-01-01T00:00:00Z", "%00", "..", "'"]
TEXT = st.text(max_size=12) | st.sampled_from(WORDS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
KINDS = st.sampled_from(
    [
        "application/json",
        "application/vnd.apache.arrow.stream",
        "application/vnd.apache.parquet",
        "application/x-npz",
        "application/octet-stream",
        "text/plain",
        "",
    ]
)
ROW = st.fixed_dictionaries(
    {},
    optional={
        "id": TEXT | st.integers() | st.none(),
        "time": TEXT | st.integers(),
        "version": TEXT,
        "probs": st.lists(st.floats() | st.integers() | st.none(), max_size=4) | JSON,
        "logits": st.lists(st.floats(-1e308, 1e308), max_size=4)
        | st.dictionaries(TEXT, st.floats(0, 1), max_size=3),
        "prediction": JSON,
        "weight": st.floats() | TEXT,
        "segments": st.dictionaries(TEXT, TEXT | st.none(), max_size=3) | JSON,
        "label": JSON,
    },
)
SETTINGS = st.dictionaries(
    st.sampled_from(list(Settings.model_fields)),
    JSON | st.fixed_dictionaries({"url": TEXT}) | st.fixed_dictionaries({"error": st.floats()}),
    max_size=3,
)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    from fastapi.testclient import TestClient

    from shiftgauge.monitor.db.store import open_store
    from shiftgauge.monitor.run.app import create_app

    store = open_store(tmp_path_factory.mktemp("fuzz"))
    app = create_app(store)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        client.store = store
        put_source(client)
        rows, _ = rows_json(40)
        post(client, rows)
        run_due_jobs(store)
        client.whole = arrow_bytes(to_table(rows))
        yield client
    store.close()


CALLS = [
    ("PUT", "/v1/models/{model}/versions/{version}/source"),
    ("POST", "/v1/models/{model}/predictions"),
    ("POST", "/v1/models/{model}/labels"),
    ("GET", "/v1/models"),
    ("GET", "/v1/tokens"),
    ("GET", "/v1/models/{model}"),
    ("GET", "/v1/models/{model}/windows"),
    ("GET", "/v1/models/{model}/windows/{window}"),
    ("GET", "/v1/models/{model}/windows/{window}/revisions"),
    ("GET", "/v1/models/{model}/windows/{window}/report"),
    ("GET", "/v1/models/{model}/label-requests"),
    ("POST", "/v1/models/{model}/label-requests"),
    ("GET", "/v1/models/{model}/settings"),
    ("PUT", "/v1/models/{model}/settings"),
    ("GET", "/v1/models/{model}/suggested-limits"),
    ("GET", "/v1/models/{model}/alerts"),
    ("POST", "/v1/models/{model}/alerts/{alert}"),
    ("GET", "/v1/audit"),
    ("DELETE", "/v1/models/{model}/rows"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
]


def test_every_call_is_fuzzed(client):
    schema = client.get("/openapi.json").json()["paths"]
    assert {(method.upper(), path) for path, methods in schema.items() for method in methods} == set(CALLS)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize(("method", "path"), CALLS)
def test_no_call_fails(client, method, path, data):
    from urllib.parse import quote

    schema = client.get("/openapi.json").json()["paths"][path][method.lower()]
    words = {
        "model": st.just("m") | TEXT,
        "version": st.just("v1") | TEXT,
        "alert": st.just("1") | TEXT,
        "window": st.just(client.get("/v1/models/m/windows").json()["windows"][0]["window"]) | TEXT,
    }
    for name, values in words.items():
        if f"{{{name}}}" in path:
            chosen = data.draw(values, name).encode("utf-8", "replace").decode()
            path = path.replace(f"{{{name}}}", quote(chosen, safe="") or "x")
    asked = {
        parameter["name"]: data.draw(TEXT | st.integers() | st.floats(), parameter["name"])
        for parameter in schema.get("parameters", [])
        if parameter["in"] == "query" and data.draw(st.booleans())
    }
    body, headers = None, {}
    if method in ("PUT", "POST"):
        body = data.draw(_bodies(client, path), "body")
        headers["content-type"] = data.draw(KINDS, "kind")
        if data.draw(st.booleans()):
            headers["idempotency-key"] = data.draw(st.text("abc \x7f", max_size=3), "key")
        if data.draw(st.integers(0, 5)) == 0:
            headers["content-encoding"] = data.draw(st.sampled_from(["gzip", "br", "identity"]))
    answer = client.request(method, path, params=asked, content=body, headers=headers)
    assert answer.status_code < 500, (method, path, asked, body, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert json.loads(answer.text)["detail"]


def _bodies(client, path):
    """Anything; rows or settings that are nearly right; a right file with some of its bytes changed."""
    whole = source_npz() if "source" in path else client.whole
    nearly = SETTINGS if "settings" in path else st.lists(ROW, max_size=3)
    changed = st.builds(
        lambda at, byte: whole[: at % len(whole)] + bytes([byte]) + whole[at % len(whole) + 1 :],
        st.integers(0, 10**6),
        st.integers(0, 255),
    )
    text = (JSON | nearly).map(lambda value: json.dumps(value).encode("utf-8", "replace"))
    return text | changed | st.binary(max_size=40)
