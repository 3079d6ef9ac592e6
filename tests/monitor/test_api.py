"""The calls of version 1, on both databases: what comes in comes out, once, with every revision."""

import gzip
import io
import threading
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from monitor_data import (
    SECRET,
    K,
    client_of,
    days_ago,
    labels_json,
    problem,
    rows_json,
    run_due_jobs,
    source_npz,
)
from scipy.stats import binomtest

import shiftgauge as sg
from shiftgauge.monitor.periods import DAY, iso, period_at
from shiftgauge.monitor.run.export import export

ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"


def put_source(client, model="m", version="v1", **more):
    """A source of a model whose bootstraps are short."""
    client.put(f"/v1/models/{model}/settings", json={"replicates": 20}).raise_for_status()
    answer = client.put(f"/v1/models/{model}/versions/{version}/source", content=source_npz(**more))
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(client, rows, model="m", **more):
    return client.post(f"/v1/models/{model}/predictions", json={"rows": rows}, **more)


def windows(client, **params):
    return client.get("/v1/models/m/windows", params=params).json()["windows"]


def to_table(rows):
    z = np.array([row["logits"] for row in rows])
    times = [np.datetime64(row["time"].rstrip("Z")) for row in rows]
    return pa.table(
        {
            "id": [row["id"] for row in rows],
            "time": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
            "version": pa.array([row["version"] for row in rows]).dictionary_encode(),
            "logits": pa.FixedSizeListArray.from_arrays(pa.array(z.ravel()), K),
        }
    )


def arrow_bytes(table, **options):
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return out.getvalue()


def test_first_calls_of_a_model_at_the_same_time(client):
    """Whoever comes second finds the model that the first one made."""
    together = threading.Barrier(4)

    def put(model, number):
        together.wait(60)
        if number % 2:
            return client.put(f"/v1/models/{model}/settings", json={})
        return client.put(f"/v1/models/{model}/versions/v{number}/source", content=source_npz(n=30))

    with ThreadPoolExecutor(4) as pool:
        for i in range(8):
            answers = list(pool.map(put, [f"m{i}"] * 4, range(4)))
            assert [answer.status_code for answer in answers] == [200] * 4, [a.text for a in answers]
    assert len(client.get("/v1/models").json()["models"]) == 8


def test_a_window_says_what_the_library_says(client):
    """The numbers of a window are those of sg.estimate on its rows in order, and the observed error the share."""
    put_source(client)
    rows, labels = rows_json(200)
    answer = post(client, rows)
    assert (answer.status_code, answer.json()) == (202, {"accepted": 200, "duplicates": 0})
    client.post("/v1/models/m/labels", json=labels_json(rows[:150], labels[:150]))
    run_due_jobs(client.store)
    (window,) = windows(client)
    held = np.load(io.BytesIO(source_npz()))
    source = sg.Source(held["logits"], held["labels"])
    z = np.array([row["logits"] for row in rows])
    known = dict(enumerate(labels[:150]))
    truth = sg.estimate(source, sg.Target(z), level=0.9, labels=known, labels_chosen="unknown")
    alone = sg.estimate(source, sg.Target(z), level=0.9)
    assert window["error"] == pytest.approx(truth.error, abs=1e-12)
    assert window["range"] == {
        "low": pytest.approx(truth.range.low, abs=1e-12),
        "high": pytest.approx(truth.range.high, abs=1e-12),
        "level": 0.9,
        "kind": truth.range.kind,
    }
    assert window["labels"] == truth.labels.to_dict()
    assert window["labels"]["scores_error"] == pytest.approx(alone.error, abs=1e-12)
    sampling = (alone.sampling.high - alone.sampling.low) / 2
    assert window["sampling"] == pytest.approx(min(sampling, truth.error - truth.range.low))
    assert {"interval", "band", "bound"}.isdisjoint(window)
    assert window["rows"] == 200
    assert window["state"] == "estimated"
    wrong = int((z.argmax(1)[:150] != np.array(labels[:150])).sum())
    ends = binomtest(wrong, 150).proportion_ci(0.9, method="wilson")
    assert window["observed"]["error"] == pytest.approx(wrong / 150)
    assert window["observed"]["low"] == pytest.approx(ends.low)
    assert window["observed"]["high"] == pytest.approx(ends.high)
    assert window["observed"]["labels"] == 150
    assert window["observed"]["kind"] == "sample"


@pytest.mark.parametrize("form", ["arrow", "parquet", "gzip"])
def test_rows_are_the_same_in_every_form(client, form):
    """What came as JSON is a duplicate when it comes as Arrow or Parquet: content is compared, not bytes."""
    put_source(client)
    rows, _ = rows_json(50)
    assert post(client, rows[:20]).json()["accepted"] == 20
    if form == "gzip":
        import json

        text, headers = json.dumps(rows).encode(), {"content-encoding": "gzip"}
        body = gzip.compress(text[:1000]) + gzip.compress(text[1000:])  # two members, as `cat` makes them
        headers["content-type"] = "application/json"
    elif form == "arrow":
        body, headers = arrow_bytes(to_table(rows)), {"content-type": ARROW}
    else:
        out = io.BytesIO()
        pa.parquet.write_table(to_table(rows), out)
        body, headers = out.getvalue(), {"content-type": PARQUET}
    answer = client.post("/v1/models/m/predictions", content=body, headers=headers)
    assert answer.json() == {"accepted": 30, "duplicates": 20}, answer.text


@pytest.mark.parametrize(
    "column",
    [
        lambda numbers: numbers,
        lambda numbers: numbers.cast(pa.float64()),
        lambda numbers: numbers.cast(pa.string()),
        lambda numbers: numbers.cast(pa.large_string()),
        lambda numbers: numbers.cast(pa.string()).dictionary_encode(),
    ],
    ids=["whole numbers", "floats", "texts", "large texts", "dictionary"],
)
def test_classes_are_the_same_in_every_type_of_column(lite_client, column):
    """What came as numbers in JSON is a duplicate in any column; what is wrong or missing is named by its row."""
    put_source(lite_client)
    rows, labels = rows_json(6, prediction=lambda i: [2, None, 0][i % 3])

    def send(name, table):
        headers = {"content-type": ARROW}
        return lite_client.post(f"/v1/models/m/{name}", content=arrow_bytes(table), headers=headers)

    def predicted(classes):
        return to_table(rows).append_column("prediction", column(pa.array(classes, pa.int64())))

    def labelled(classes):
        return pa.table({"id": [row["id"] for row in rows], "label": column(pa.array(classes, pa.int64()))})

    assert post(lite_client, rows).json()["accepted"] == 6
    assert post(lite_client, rows[1::3]).json()["duplicates"] == 2  # those without a prediction
    classes = [row["prediction"] for row in rows]
    assert send("predictions", predicted(classes)).json() == {"accepted": 0, "duplicates": 6}
    said = problem(send("predictions", predicted([*classes[:4], 7, 8])), 422)
    assert "row 4: prediction '7' is not a class" in said
    lite_client.post("/v1/models/m/labels", json=labels_json(rows, labels)).raise_for_status()
    assert send("labels", labelled(labels)).json()["duplicates"] == 6
    assert "row 5: label '9'" in problem(send("labels", labelled([*labels[:5], 9])), 422)
    assert "row 2: its label is missing" in problem(
        send("labels", labelled([*labels[:2], None, *labels[3:]])), 422
    )


def test_an_id_with_other_content_is_refused_and_nothing_kept(client):
    put_source(client)
    rows, _ = rows_json(30)
    post(client, rows[:10])
    rows[5]["logits"][0] += 1e-9
    assert "r5" in problem(post(client, rows), 409)
    rows[5]["logits"][0] -= 1e-9
    assert post(client, rows[5:]).json() == {"accepted": 20, "duplicates": 5}


@pytest.mark.parametrize("change", ["time", "version", "weight", "prediction", "segments"])
def test_every_part_of_a_row_is_its_content(client, change):
    put_source(client)
    put_source(client, version="v2")
    rows, _ = rows_json(1)
    post(client, rows)
    other = {
        "time": iso(days_ago(2)),
        "version": "v2",
        "weight": 0.5,
        "prediction": 1,
        "segments": {"a": "b"},
    }
    problem(post(client, [{**rows[0], change: other[change]}]), 409)


def test_an_idempotency_key_gets_its_first_answer_again(client):
    put_source(client)
    rows, _ = rows_json(10)
    key = {"idempotency-key": "abc"}
    assert post(client, rows, headers=key).json() == {"accepted": 10, "duplicates": 0}
    assert post(client, rows, headers=key).json() == {"accepted": 10, "duplicates": 0, "replayed": True}
    assert "another body" in problem(post(client, rows[:5], headers=key), 422)
    assert (
        client.post("/v1/models/m/labels", json=labels_json(rows, [0] * 10), headers=key).status_code == 202
    )


def test_labels_before_their_rows_count(client):
    put_source(client)
    rows, labels = rows_json(60)
    said = client.post("/v1/models/m/labels", json=labels_json(rows, labels)).json()
    assert said == {"accepted": 60, "duplicates": 0, "corrected": 0, "unmatched": 60}
    post(client, rows)
    run_due_jobs(client.store)
    (window,) = windows(client)
    assert window["observed"]["labels"] == 60
    assert window["observed"]["kind"] == "all rows"


def test_a_corrected_label_replaces_the_old_one_and_both_are_kept(client, tmp_path):
    put_source(client)
    rows, labels = rows_json(40)
    post(client, rows)
    client.post("/v1/models/m/labels", json=labels_json(rows, labels))
    run_due_jobs(client.store)
    before = windows(client)[0]
    predicted = int(np.argmax(rows[0]["logits"]))
    other = (predicted + 1) % K if labels[0] == predicted else predicted
    said = client.post("/v1/models/m/labels", json=[{"id": "r0", "label": other}]).json()
    assert said["corrected"] == 1
    run_due_jobs(client.store)
    after = windows(client)[0]
    assert after["revision"] == before["revision"] + 1
    assert after["cause"] == "labels"
    assert abs(after["observed"]["error"] - before["observed"]["error"]) == pytest.approx(1 / 40)
    assert after["error"] == pytest.approx(after["observed"]["error"])  # every row is labelled
    export(client.store, tmp_path / "out")
    rows, held = (pa.parquet.read_table(tmp_path / "out" / kind).to_pylist() for kind in ("rows", "labels"))
    (mine,) = [row["id_hash"] for row in rows if row["id"] == "r0"]  # labels are kept by the hash of their id
    assert [row["label"] for row in held if row["id_hash"] == mine] == [str(labels[0]), str(other)]


def test_a_late_row_makes_a_new_revision_and_the_old_one_stays(client):
    put_source(client)
    rows, _ = rows_json(80)
    post(client, rows[:79])
    run_due_jobs(client.store)
    first = windows(client)[0]
    post(client, rows[79:])
    run_due_jobs(client.store)
    second = windows(client)[0]
    assert (first["revision"], second["revision"], second["cause"]) == (1, 2, "late rows")
    assert second["rows"] == 80
    assert second["error"] != first["error"]
    then = client.get(f"/v1/models/m/windows/{first['window']}", params={"revision": 1}).json()
    assert then == first
    held = client.get(f"/v1/models/m/windows/{first['window']}/revisions").json()["revisions"]
    assert [one["error"] for one in held] == [first["error"], second["error"]]
    assert windows(client, as_of=first["created"]) == [first]
    assert windows(client, as_of=second["created"]) == [second]
    assert windows(client, as_of=iso(days_ago(1))) == []  # it was not estimated by then


def test_the_order_of_arrival_does_not_matter(tmp_path, lite):
    """The same rows in other batches and another order give the same numbers, to the last bit."""
    from shiftgauge.monitor.db.store import open_store

    found = []
    rows, _ = rows_json(90, weight=lambda i: 1.0 + i % 3)
    for name, order in (("a", rows), ("b", rows[::-1])):
        store = open_store(tmp_path / name)
        for client in client_of(store):
            put_source(client)
            step = 90 if name == "a" else 7
            for i in range(0, 90, step):
                post(client, order[i : i + step])
            run_due_jobs(store)
            window = windows(client)[0]
            window.pop("created")
            found.append(window)
    assert found[0] == found[1]


def test_windows_wait_for_the_source_and_say_so(client):
    client.put("/v1/models/m/settings", json={})
    rows, _ = rows_json(40)
    assert post(client, rows).status_code == 202
    run_due_jobs(client.store)
    (window,) = windows(client)
    assert window["state"] == "waiting"
    assert "no source yet" in window["reason"]
    assert client.get("/v1/models/m").json()["state"] == "waiting"
    put_source(client)
    run_due_jobs(client.store)
    assert windows(client)[0]["state"] == "estimated"


def test_a_source_that_comes_while_the_worker_looks_is_not_missed(client, monkeypatch):
    """The worker saw no source, it comes, the worker writes that the window waits: nobody would ask again."""
    from shiftgauge.monitor.estimate import windows as jobs

    client.put("/v1/models/m/settings", json={"replicates": 20})
    post(client, rows_json(60)[0])
    look, came = jobs.WindowSnapshot.__init__, []

    def look_then_source(self, *words):
        look(self, *words)
        if not came:
            came.append(put_source(client))

    monkeypatch.setattr(jobs.WindowSnapshot, "__init__", look_then_source)
    run_due_jobs(client.store)
    assert [(w["state"], w["reason"]) for w in windows(client)] == [("estimated", None)]


def test_windows_by_number_of_rows(client):
    put_source(client)
    client.put("/v1/models/m/settings", json={"window": "25 rows"})
    rows, labels = rows_json(60)
    for i in range(0, 60, 20):
        post(client, rows[i : i + 20])
    run_due_jobs(client.store)
    found = windows(client)
    assert [(w["window"], w["state"], w["rows"]) for w in found] == [
        ("rows-0-24.v1", "estimated", 25),
        ("rows-25-49.v1", "estimated", 25),
        ("rows-50-74.v1", "open", 10),
    ]
    client.post("/v1/models/m/labels", json=labels_json(rows, labels))
    run_due_jobs(client.store)
    assert [w["observed"]["labels"] for w in windows(client)[:2]] == [25, 25]
    assert "cannot follow one another" in problem(
        client.put("/v1/models/m/settings", json={"window": "day"}), 409
    )


def test_a_new_window_length_holds_from_a_common_boundary(client):
    put_source(client)
    rows, _ = rows_json(20)
    post(client, rows)
    client.put("/v1/models/m/settings", json={"window": "hour"})
    more, _ = rows_json(20, prefix="s", day=2)
    post(client, more)
    assert [w["length"] for w in windows(client)] == ["day", "day"]  # both lie before the next midnight
    from shiftgauge.monitor.periods import simulated_time

    with simulated_time(days_ago(-2)):
        later, _ = rows_json(20, prefix="t", day=0)  # two days from now it is today
        assert post(client, later).status_code == 202
    assert [w["length"] for w in windows(client)] == ["day", "day", "hour"]


def test_segments_are_estimated_one_by_one(client):
    put_source(client)
    client.put("/v1/models/m/settings", json={"segments": ["country"]})
    rows, labels = rows_json(
        120, segments=lambda i: {"country": "DE" if i % 3 else "FR"} if i < 110 else None
    )
    post(client, rows)
    client.post("/v1/models/m/labels", json=labels_json(rows, labels))
    run_due_jobs(client.store)
    (window,) = windows(client)
    found = {s["value"]: s for s in window["segments"]}
    assert set(found) == {"DE", "FR", "(missing)"}
    assert sum(s["rows"] for s in found.values()) == 120
    wrong = np.array([np.argmax(row["logits"]) for row in rows]) != np.array(labels)
    mine = np.array([i < 110 and bool(i % 3) for i in range(120)])
    assert found["DE"]["observed"] == pytest.approx(wrong[mine].mean())
    text = client.get("/metrics").text
    assert (
        'shiftgauge_estimated_error_ratio{method="auto",model="m",segment="country=DE",version="v1"}' in text
    )


def test_a_segment_of_too_few_rows_has_an_estimate_and_no_range(client):
    put_source(client)
    client.put("/v1/models/m/settings", json={"segments": ["country"]})
    post(client, rows_json(120, segments=lambda i: {"country": "DE" if i >= 4 else "FR"})[0])
    run_due_jobs(client.store)
    (window,) = windows(client)
    found = {s["value"]: s for s in window["segments"]}
    assert 0 <= found["DE"]["low"] <= found["DE"]["error"] <= found["DE"]["high"] <= 1
    assert (found["FR"]["rows"], found["FR"]["low"], found["FR"]["high"]) == (4, None, None)
    text = client.get("/metrics").text
    shown = {
        name
        for name in ("", "_low", "_high")
        if f'error{name}_ratio{{method="auto",model="m",segment="country=FR"' in text
    }
    assert shown == {""}


def test_labels_that_come_many_windows_late_still_have_their_metric(client, monkeypatch):
    """Hourly windows and labels two weeks late: the newest window with labels is the 336th."""
    monkeypatch.setattr("shiftgauge.monitor.api.prometheus.NEWEST", 1)
    put_source(client)
    client.put("/v1/models/m/settings", json={"replicates": 20})
    rows, labels = rows_json(60, day=5)
    post(client, rows)
    post(client, rows_json(60, day=3, prefix="later")[0])
    client.post("/v1/models/m/labels", json=labels_json(rows, labels))
    run_due_jobs(client.store)
    old, _ = windows(client)
    text = client.get("/metrics").text
    assert (
        f'shiftgauge_observed_error_ratio{{model="m",segment="",version="v1"}} {old["observed"]["error"]}'
        in text
    )


def test_labels_of_requested_rows_are_a_random_sample(client):
    """Rows are picked by sg.label_plan; their labels are the evidence, and those of other rows are not."""
    put_source(client)
    rows, labels = rows_json(400, shift=0.5)
    post(client, rows)
    run_due_jobs(client.store)
    name = windows(client)[0]["window"]
    many = problem(client.post("/v1/models/m/label-requests", json={"window": name, "labels": 401}), 422)
    assert many == "labels=401: wanted 1 to 400, the window's rows"
    asked = client.post("/v1/models/m/label-requests", json={"window": name, "labels": 60}).json()["rows"]
    assert len(asked) == 60
    again = client.get("/v1/models/m/label-requests", params={"window": name}).json()["rows"]
    assert again == asked
    assert "already requested" in problem(
        client.post("/v1/models/m/label-requests", json={"window": name, "labels": 80}), 409
    )
    truth = {row["id"]: int(label) for row, label in zip(rows, labels, strict=True)}
    others = [row["id"] for row in rows if row["id"] not in {one["id"] for one in asked}][:100]
    body = [{"id": i, "label": truth[i]} for i in [one["id"] for one in asked] + others]
    client.post("/v1/models/m/labels", json=body)
    run_due_jobs(client.store)
    assert client.get("/v1/models/m/label-requests", params={"window": name}).json()["rows"] == []
    (window,) = windows(client)
    held = np.load(io.BytesIO(source_npz()))
    source, target = sg.Source(held["logits"], held["labels"]), sg.Target([row["logits"] for row in rows])
    plan = sg.label_plan(source, target, n=60)
    assert [row["id"] for row in asked] == [rows[i]["id"] for i in plan.rows]
    known = {int(i): labels[i] for i in plan.rows}
    expected = sg.estimate(source, target, labels=known, labels_chosen=plan)
    assert window["error"] == pytest.approx(expected.error, abs=1e-9)
    assert window["range"] == pytest.approx(expected.range.to_dict())
    assert (window["labels"]["n"], window["labels"]["chosen"]) == (60, "random")
    assert (window["observed"]["labels"], window["observed"]["kind"]) == (160, "sample")


def test_an_erased_row_is_not_asked_for_any_more(lite_client):
    client = lite_client
    put_source(client)
    post(client, rows_json(200)[0])
    run_due_jobs(client.store)
    asked = client.post("/v1/models/m/label-requests", json={"labels": 40}).json()["rows"]
    client.delete("/v1/models/m/rows", params={"id": asked[3]["id"]})
    assert client.get("/v1/models/m/label-requests").json()["rows"] == asked[:3] + asked[4:]


def test_forgetting_by_id_and_by_age(client, tmp_path):
    put_source(client)
    rows, labels = rows_json(50)
    post(client, rows)
    client.post("/v1/models/m/labels", json=labels_json(rows, labels))
    run_due_jobs(client.store)
    before = windows(client)[0]
    assert client.delete("/v1/models/m/rows", params={"id": "r7"}).json()["erased"] == 2
    assert windows(client)[0] == before  # what was published stays
    changed = [{**rows[7], "logits": [9.0, 0.0, 0.0]}]
    assert post(client, changed).json() == {"accepted": 1, "duplicates": 0}  # an erased id may come again
    run_due_jobs(client.store)
    assert windows(client)[0]["rows"] == 50
    cut = iso(days_ago(3) + 10_000_000)
    assert client.delete("/v1/models/m/rows", params={"before": cut}).json()["erased"] == 10
    export(client.store, tmp_path / "out")  # their labels are erased with them, the others are not
    held, marked = (pa.parquet.read_table(tmp_path / "out" / kind).to_pylist() for kind in ("rows", "labels"))
    kept = {row["id_hash"] for row in held if row["id"] in {row["id"] for row in rows[10:]}}
    assert {row["id_hash"] for row in marked} == kept
    assert len(marked) == len(kept) == 40
    assert "erased" in problem(post(client, rows[:3]), 422)
    assert post(client, rows[20:]).json() == {"accepted": 0, "duplicates": 30}


def test_the_report_of_a_window_is_kept(client):
    put_source(client)
    rows, _ = rows_json(60)
    post(client, rows)
    run_due_jobs(client.store)
    name = windows(client)[0]["window"]
    page = client.get(f"/v1/models/m/windows/{name}/report")
    assert page.headers["content-type"].startswith("text/html")
    assert "script" not in page.headers["content-security-policy"]
    held = client.get(f"/v1/models/m/windows/{name}/report", params={"format": "json"}).json()
    assert held["answer"]["error"] == windows(client)[0]["error"]
    assert client.get(f"/v1/models/m/windows/{name}/report", params={"format": "md"}).text.startswith("#")


def test_settings_survive_and_secrets_do_not_come_back(client):
    given = {"webhook": {"url": "https://example.org/hook", "secret": SECRET}, "limits": {"error": 0.2}}
    said = client.put("/v1/models/m/settings", json=given).json()
    assert said["webhook"] == {
        "url": "https://example.org/hook",
        "shape": "json",
        "signed": True,
    }
    assert SECRET not in client.get("/v1/models/m/settings").text
    client.put("/v1/models/m/settings", json={"level": 0.8})
    held = client.get("/v1/models/m/settings").json()
    assert (held["level"], held["limits"]["error"], held["webhook"]["signed"]) == (0.8, 0.2, True)


def test_responses_are_as_the_openapi_describes_them(lite_client):
    """Every route says what it returns and how problems look; what it returns is checked by `jsonschema`."""
    put_source(lite_client)
    lite_client.put(
        "/v1/models/m/settings", json={"replicates": 20, "segments": ["s"], "limits": {"error": 0.01}}
    )
    rows, labels = rows_json(200, segments={"s": "x"})
    post(lite_client, rows)
    lite_client.post("/v1/models/m/labels", json=labels_json(rows[:40], labels[:40]))
    run_due_jobs(lite_client.store)
    window = windows(lite_client)[0]["window"]
    lite_client.post("/v1/models/m/label-requests", json={"labels": 50}).raise_for_status()
    schema = lite_client.get("/openapi.json").json()
    checked = 0
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            if not path.startswith("/v1"):
                continue
            assert "application/problem+json" in route["responses"]["default"]["content"]
            good = route["responses"][min(route["responses"])]
            if method == "get" and not path.endswith("report"):
                answer = lite_client.get(path.format(model="m", window=window))
                assert answer.status_code == 200
                form = {**good["content"]["application/json"]["schema"], "components": schema["components"]}
                jsonschema.validate(answer.json(), form)
                assert answer.json()
                checked += 1
    assert checked == 11
    missing = lite_client.get("/v1/models/nobody").json()
    form = schema["paths"]["/v1/models"]["get"]["responses"]["default"]["content"]["application/problem+json"]
    jsonschema.validate(missing, {**form["schema"], "components": schema["components"]})


def test_the_openapi_leaves_no_response_untyped(lite_client):
    """No property is just any object, and every route describes its problems."""
    schema = lite_client.get("/openapi.json").json()

    def untyped(part):
        if isinstance(part, dict):
            if part.get("additionalProperties") is True or part in ({}, {"type": "object"}):
                return True
            return any(untyped(value) for name, value in part.items() if name not in ("example", "default"))
        return isinstance(part, list) and any(map(untyped, part))

    read = {name: one for name, one in schema["components"]["schemas"].items() if untyped(one)}
    assert list(read) == []
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            assert "default" in route["responses"], (method, path)


def test_bodies_are_as_the_openapi_describes_them(lite_client):
    """The example of every body fits its own form, and the server takes it."""
    put_source(lite_client)
    rows, _ = rows_json(120)
    post(lite_client, rows)
    run_due_jobs(lite_client.store)
    schema = lite_client.get("/openapi.json").json()
    sent = []
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            assert {"default"} < set(route["responses"]) or path == "/healthz"
            if method in ("put", "post"):
                content = route["requestBody"]["content"]["application/json"]
                form = {**content["schema"], "components": schema["components"]}
                jsonschema.validate(content["example"], form)
                for wrong in ([1], {"nothing of ours": 1}):
                    with pytest.raises(jsonschema.ValidationError):
                        jsonschema.validate(wrong, form)
                url = path.format(model="other" if "source" in path else "m", version="v1", alert=1)
                answer = lite_client.request(method, url, json=content["example"])
                # There is no alert, and the model has three classes.
                expected = {"/v1/models/m/alerts/1": 404, "/v1/models/m/predictions": 422}
                assert answer.status_code == expected.get(url, int(min(route["responses"]))), answer.text
                sent.append(url)
    assert len(sent) == 6


def test_a_source_in_every_form(client):
    held = np.load(io.BytesIO(source_npz()))
    z, y = held["logits"], held["labels"]
    json_body = {"logits": z.tolist(), "labels": y.tolist()}
    table = pa.table({**{f"logit_{j}": z[:, j] for j in range(K)}, "label": [str(v) for v in y]})
    out = io.BytesIO()
    pa.parquet.write_table(table, out)
    errors = set()
    for version, body, kind in (
        ("a", source_npz(), "application/x-npz"),
        ("b", out.getvalue(), PARQUET),
        ("c", arrow_bytes(table), ARROW),
    ):
        answer = client.put(
            f"/v1/models/m/versions/{version}/source", content=body, headers={"content-type": kind}
        )
        errors.add(answer.json()["error"])
    errors.add(client.put("/v1/models/m/versions/d/source", json=json_body).json()["error"])
    assert len(errors) == 1


def test_spans_are_calendar_windows():
    from datetime import datetime, timezone

    for text in ("2026-03-05T14:30:00", "1970-01-01T00:00:00", "2024-12-30T23:59:59", "2026-01-04T12:00:00"):
        moment = datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
        us = int(moment.timestamp()) * 1_000_000
        week = period_at("week", us)
        year, number, _ = moment.isocalendar()
        assert week.name == f"{year}-W{number:02d}"
        assert datetime.fromtimestamp(week.start / 1e6, timezone.utc).weekday() == 0
        assert period_at("day", us).name == text[:10]
        assert period_at("hour", us).name == f"{text[:13]}Z"
        assert week.start <= us < week.end
        assert week.end - week.start == 7 * DAY
