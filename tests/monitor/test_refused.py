"""What is refused, each with a problem that says what arrived, what was wanted and what to try."""

import gzip
import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from monitor_data import K, client_of, days_ago, problem, rows_json, source_npz
from test_api import ARROW, PARQUET, arrow_bytes, post, put_source, to_table

from shiftgauge.monitor.ingest.bodies import RequestLimits
from shiftgauge.monitor.periods import iso, now_us


@pytest.fixture
def ready(lite_client):
    put_source(lite_client)
    return lite_client


def changed(**more):
    rows, _ = rows_json(3)
    rows[1] = {**rows[1], **more}
    return rows


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (changed(logits=[1.0, 2.0]), "row 1: logits"),
        (changed(logits=[1.0, 2.0, None]), "wanted numbers"),
        (changed(logits=[1.0, 2.0, 10**400]), "too large"),
        (changed(logits=[1.0, 2.0, True]), "wanted numbers"),
        (changed(id=None), "row 1: id"),
        (changed(id=""), "0 characters"),
        (changed(id="x" * 201), "201 characters"),
        (changed(time="2026-03-05T14:00:00"), "has no zone"),
        (changed(time="yesterday"), "cannot be read"),
        (changed(time=1234), "wanted ISO 8601"),
        (changed(time=iso(now_us() + 2 * 3600 * 10**6)), "in the future"),
        (changed(time="1960-01-01T00:00:00Z"), "before 1970"),
        (changed(version="../v1"), "version name"),
        (changed(version=None), "row 1: version"),
        (changed(prediction="cat"), "is not a class"),
        (changed(prediction=K), "is not a class"),
        (changed(weight=-1), "weight"),
        (changed(weight="1"), "weight"),
        (changed(segments={"a/b": "x"}), "segment name"),
        (changed(segments={"a": 1}), "wanted an object of texts"),
        (changed(segments={"a": "x" * 300}), "300 characters"),
        (changed(probs=[0.2, 0.3, 0.5]), "both probs and logits"),
        (changed(prob=[1]), "did you mean"),
        (changed(id="r0"), "stands twice"),
        ([], "no rows"),
        ("rows", "no rows"),
        ([1], "row 0: arrived as int"),
        (None, "no rows"),
    ],
)
def test_bad_rows(ready, rows, said):
    answer = post(ready, rows)
    assert said in problem(answer, 409 if "twice" in said else 422)
    assert ready.get("/v1/models/m").json()["rows"] == 0


@pytest.mark.parametrize(
    ("probs", "said"),
    [([0.2, 0.3, 0.6], "sums to 1.1"), ([0.5, 0.6, -0.1], "0 or more"), ([20, 30, 50], "percentages")],
)
def test_bad_probabilities(ready, probs, said):
    rows = [{**row, "probs": probs} for row in changed()]
    for row in rows:
        row.pop("logits")
    assert said in problem(post(ready, rows), 422)


def test_texts_that_are_no_unicode(ready):
    body = json.dumps(changed(id="odd")).replace('"odd"', '"\\ud800"')
    kind = {"content-type": "application/json"}
    assert "not JSON" in problem(ready.post("/v1/models/m/predictions", content=body, headers=kind), 400)


def test_nan_is_refused_in_every_form(ready):
    rows, _ = rows_json(3)
    text = json.dumps(rows).replace(repr(rows[1]["logits"][0]), "NaN")
    kind = {"content-type": "application/json"}
    assert "NaN" in problem(ready.post("/v1/models/m/predictions", content=text, headers=kind), 400)
    rows[1]["logits"][0] = float("nan")
    body = arrow_bytes(to_table(rows))
    said = problem(ready.post("/v1/models/m/predictions", content=body, headers={"content-type": ARROW}), 422)
    assert "row 1, column 0 is nan" in said


def arrow(client, table, kind=ARROW, body=None):
    return client.post(
        "/v1/models/m/predictions",
        content=arrow_bytes(table) if body is None else body,
        headers={"content-type": kind},
    )


def test_bad_tables(ready):
    table = to_table(rows_json(4)[0])
    naive = table.set_column(1, "time", table.column("time").cast(pa.timestamp("us")))
    assert "no zone" in problem(arrow(ready, naive), 422)
    assert "'time' is missing" in problem(arrow(ready, table.drop_columns(["time"])), 422)
    assert "is not known" in problem(arrow(ready, table.append_column("colour", pa.array([1] * 4))), 422)
    ragged = pa.array([[1.0, 2.0, 3.0], [1.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    assert "row 1" in problem(arrow(ready, table.set_column(3, "logits", ragged)), 422)
    with_null = pa.array([[1.0, None, 3.0]] * 4)
    assert "missing" in problem(arrow(ready, table.set_column(3, "logits", with_null)), 422)
    assert "not application" in problem(arrow(ready, table, PARQUET), 400)
    assert "not application" in problem(
        arrow(ready, table, ARROW, b"\xff\xff\xff\xff\x10\x00\x00\x00garbage"), 400
    )
    assert "no rows" in problem(arrow(ready, table.slice(0, 0)), 422)


def test_damaged_arrow_is_refused_before_it_is_touched(ready):
    """Every byte of a valid stream flipped in turn: an answer each time, never a crash."""
    body = arrow_bytes(to_table(rows_json(4)[0]))
    rng = np.random.default_rng(0)
    for at in rng.choice(len(body), 300, replace=False):
        broken = bytearray(body)
        broken[at] ^= 1 << rng.integers(8)
        answer = arrow(ready, None, ARROW, bytes(broken))
        assert answer.status_code in (202, 400, 409, 413, 422), (at, answer.text)


def test_compressed_arrow_is_refused_and_compressed_bodies_have_limits(lite):
    for client in client_of(lite, limits=RequestLimits(body=100_000)):
        put_source(client, n=100)
        table = to_table(rows_json(4)[0])
        body = arrow_bytes(table, compression="lz4")
        assert "compressed" in problem(arrow(client, table, ARROW, body), 422)
        bomb = gzip.compress(b" " * 10_000_000)
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        answer = client.post("/v1/models/m/predictions", content=bomb, headers=headers)
        assert "after decompression" in problem(answer, 413)
        assert "more than 100,000 bytes" in problem(
            client.post("/v1/models/m/predictions", content=b" " * 100_001, headers=headers), 413
        )
        answer = client.post("/v1/models/m/predictions", content=gzip.compress(b"[]")[:-4], headers=headers)
        assert "ends too early" in problem(answer, 400)
        bombs = gzip.compress(b" " * 300_000) * 2  # each within the limit, both beyond it
        answer = client.post("/v1/models/m/predictions", content=bombs, headers=headers)
        assert "after decompression" in problem(answer, 413)
        answer = client.post("/v1/models/m/predictions", content=gzip.compress(b"") * 100, headers=headers)
        assert "members" in problem(answer, 400)
        for behind in (b"garbage", gzip.compress(b"[]")[:-4]):
            body = gzip.compress(b"[]") + behind
            answer = client.post("/v1/models/m/predictions", content=body, headers=headers)
            assert "gzip" in problem(answer, 400)
        out = io.BytesIO()
        wide = pa.table(
            {"id": ["a"] * 50_000, "logits": pa.FixedSizeListArray.from_arrays(np.zeros(150_000), K)}
        )
        pa.parquet.write_table(wide, out, compression="zstd")
        assert len(out.getvalue()) < 100_000
        assert "after decompression" in problem(arrow(client, None, PARQUET, out.getvalue()), 413)
        out = io.BytesIO()
        long = to_table(rows_json(100)[0]).set_column(2, "version", pa.array(["v" * 50_000] * 100))
        pa.parquet.write_table(long, out, compression="zstd")
        assert "50000 characters" in problem(arrow(client, None, PARQUET, out.getvalue()), 422)


def test_a_key_that_stands_twice_is_refused(ready):
    body = b'{"id": "a", "version": "1", "id": "b"}'
    headers = {"content-type": "application/json"}
    for call in ("predictions", "labels"):
        answer = ready.post(f"/v1/models/m/{call}", content=b"[" + body + b"]", headers=headers)
        assert 'duplicate key "id"' in problem(answer, 400)


def test_limits_of_rows_and_columns(lite):
    for client in client_of(lite, limits=RequestLimits(rows=10, classes=4, segments=2)):
        put_source(client)
        rows, _ = rows_json(11)
        assert "11 rows" in problem(post(client, rows), 413)
        assert "more than 10 rows" in problem(arrow(client, to_table(rows)), 413)
        many = [{**rows[0], "segments": {str(i): "x" for i in range(3)}}]
        assert "segments" in problem(post(client, many), 413)
        assert "classes" in problem(post(client, [{**rows[0], "logits": [0.0] * 5}]), 413)


def test_rows_that_contradict_the_source(ready):
    rows, _ = rows_json(2)
    four = [{**row, "logits": [*row["logits"], 0.0]} for row in rows]
    assert "4 classes, but version 'v1' has 3" in problem(post(ready, four), 422)
    put_source(ready, version="named", classes=["cat", "dog", "owl"])
    named = [{**row, "version": "named", "logits": {"cat": 1.0, "dog": 2.0, "cow": 0.0}} for row in rows]
    assert "'cow'" in problem(post(ready, named), 422)
    named = [{**row, "version": "named", "logits": {"owl": 3.0, "dog": 2.0, "cat": 1.0}} for row in rows]
    assert post(ready, named).status_code == 202
    again = [{**row, "version": "named", "logits": [1.0, 2.0, 3.0]} for row in rows]
    assert post(ready, again).json()["duplicates"] == 2  # the same row, with its columns in order
    probs = [{**row, "version": "named", "id": "p", "probs": [0.2, 0.3, 0.5]} for row in rows[:1]]
    probs[0].pop("logits")
    assert "earlier rows" in problem(post(ready, probs), 422)


def test_an_id_in_two_versions_of_one_request_is_refused_as_in_two_requests(lite_client):
    client, (row,) = lite_client, rows_json(1)[0]
    put_source(client)
    text = problem(post(client, [row, {**row, "version": "v2"}]), 409)
    assert text == "id 'r0' stands twice in this request with different content; wanted it once"
    post(client, [row, {**row, "id": "r1", "version": "v2"}]).raise_for_status()
    problem(post(client, [{**row, "version": "v2"}]), 409)
    assert client.get("/v1/models/m").json()["rows"] == 2


def test_a_row_from_before_an_erasure_is_named_by_its_id(lite_client):
    client, rows = lite_client, rows_json(2)[0]
    put_source(client)
    client.delete("/v1/models/m/rows", params={"before": rows[0]["time"]}).raise_for_status()
    old = {**rows[0], "id": "old", "version": "v2", "time": iso(days_ago(5))}
    text = problem(post(client, [*rows, old]), 422)
    assert text.startswith(f"id 'old': its time {old['time']} is before {rows[0]['time']}")


def test_a_source_that_contradicts_the_rows(ready):
    ready.put("/v1/models/n/settings", json={})
    rows, _ = rows_json(2)
    post(ready, [{**row, "logits": [1.0, 2.0]} for row in rows], model="n")
    answer = ready.put("/v1/models/n/versions/v1/source", content=source_npz())
    assert "the 2 rows of version 'v1' have 2" in problem(answer, 409)


def test_bad_labels(ready):
    rows, _ = rows_json(3)
    post(ready, rows)

    def labels(*pairs):
        return ready.post("/v1/models/m/labels", json=[{"id": i, "label": value} for i, value in pairs])

    assert "row 1: label '3'" in problem(labels(("r0", 1), ("r1", 3)), 422)
    assert "is not a class" in problem(labels(("later", "cat")), 422)
    assert "wanted the name or the number" in problem(labels(("r0", None)), 422)
    assert "wanted the name or the number" in problem(labels(("r0", 1.5)), 422)
    assert "stands twice" in problem(labels(("r0", 1), ("r0", 2)), 409)
    assert labels(("r0", 1), ("r0", 1)).json()["accepted"] == 1


def test_unknown_things(ready):
    assert "model 'nn' is not known" in problem(post(ready, rows_json(1)[0], model="nn"), 404)
    assert "version 'v9'" in problem(ready.get("/v1/models/m/windows", params={"version": "v9"}), 404)
    assert "window '2026'" in problem(ready.get("/v1/models/m/windows/2026"), 404)
    assert "see /docs" in problem(ready.get("/v2/models"), 404)
    problem(ready.post("/v1/models"), 405)
    kind = {"content-type": "text/plain"}
    problem(ready.post("/v1/models/m/predictions", content=b"x", headers=kind), 415)
    problem(ready.post("/v1/models/m/predictions", json=[], headers={"content-encoding": "br"}), 415)
    problem(
        ready.post("/v1/models/m/predictions", content=b"{", headers={"content-type": "application/json"}),
        400,
    )
    problem(post(ready, rows_json(1)[0], headers={"idempotency-key": "a b"}), 422)


@pytest.mark.parametrize("name", ["..", ".hidden", "a b", "a%2Fb", "x" * 101, "%00", "<script>", "ü"])
def test_names_are_plain(ready, name):
    answer = ready.put(f"/v1/models/{name}/settings", json={})
    assert answer.status_code in (404, 405, 422)
    assert ready.get("/v1/models").text.count('"name":"m"') == 1
    assert "script" not in ready.get("/v1/models").text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"window": "fortnight"}, "wanted 'hour', 'day', 'week'"),
        ({"window": "5 rows"}, "at least 10"),
        ({"lateness": 1}, "did you mean 'lateness_minutes'"),
        ({"level": 95}, "level"),
        ({"limits": {"eror": 0.1}}, "did you mean 'error'"),
        ({"limits": {"error": "x"}}, "limits.error"),
        ({"limits": {"windows": 1.5}}, "whole number"),
        ({"webhook": {"url": "ftp://x"}}, "https://"),
        ({"webhook": {"url": "https://["}}, "https://"),
        ({"webhook": {"url": "https://x", "shape": "teams"}}, "'json' or 'slack'"),
        ({"segments": ["a/b"]}, "segment name"),
        ({"segments": "country"}, "wanted a list"),
        ({"method": "magic"}, "method"),
        ({"method": []}, "method"),
        ({"method": {"auto": 1}}, "method"),
        ({"replicates": 1}, "replicates"),
        ({"retention_days": 0}, "retention_days"),
        ([], "wanted a JSON object"),
    ],
)
def test_bad_settings(ready, given, said):
    assert said in problem(ready.put("/v1/models/m/settings", json=given), 422)


def test_bad_sources(ready):
    def put(body, kind="application/x-npz"):
        return ready.put("/v1/models/m/versions/w/source", content=body, headers={"content-type": kind})

    assert "not a readable npz" in problem(put(b"PK\x03\x04nonsense"), 400)
    header = npz(logits=np.zeros((4, 3)), labels=np.zeros(4, int)).replace(b"'shape': (4", b"'shape': \x004")
    assert "cannot be read as .npz" in problem(put(header), 422)  # numpy's header reader raises a TokenError
    assert "labels" in problem(put(npz(logits=np.zeros((4, 3)))), 422)
    objects = npz(logits=np.array([[1, "x"]], dtype=object), labels=np.array([0]))
    assert "pickled objects" in problem(put(objects), 422)
    assert "promises" in problem(put(lying_npz()), 422)
    assert "wanted finite" in problem(put(npz(logits=np.full((4, 3), np.nan), labels=np.zeros(4, int))), 422)
    problem(put(b'{"probs": [[1, 0]], "labels": [5]}', "application/json"), 422)
    problem(put(b'{"probs": [[1, 0], [1]], "labels": [0, 0]}', "application/json"), 422)
    problem(put(b'{"oops": 1}', "application/json"), 422)
    problem(put(b"[]", "application/json"), 422)


def npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def lying_npz():
    """An array that claims a billion rows and holds none."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 3)}
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("logits.npy", header.getvalue())
    return out.getvalue()
