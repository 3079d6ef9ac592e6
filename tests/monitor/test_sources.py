"""Sources: whatever form they come in, the server knows their error and their segments."""

import io
from datetime import datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from monitor_data import problem, rows_json, run_due_jobs, source_npz
from pyarrow import parquet

from shiftgauge.io import ReadOptions, read_source
from shiftgauge.monitor.client.push import source_request
from shiftgauge.monitor.run.replay import replay
from shiftgauge.monitor.views import get_model

pytest.importorskip("fastapi")
NAMES = np.array(["cat", "dog"])


def thresholded(n=400, seed=0):
    """Probabilities of two classes, decided for the second from 0.2 on, with weights: the argmax would err less."""
    rng = np.random.default_rng(seed)
    second = rng.random(n)
    labels = (rng.random(n) < second).astype(int)
    return {
        "probs": np.column_stack([1 - second, second]),
        "labels": NAMES[labels],
        "classes": NAMES,
        "predictions": NAMES[(second > 0.2).astype(int)],
        "weights": rng.uniform(0.5, 2.0, n),
    }


def push(client, file, segments=()):
    call = source_request(file, "http://127.0.0.1", "m", "v1", segments)
    return client.request(call.method, call.url, content=call.body, headers={"content-type": call.kind})


def test_a_pushed_source_has_the_error_of_its_file(lite_client, tmp_path):
    file = tmp_path / "source.npz"
    np.savez(file, **thresholded())
    expected = read_source(file).error
    argmax = thresholded()
    del argmax["predictions"]
    np.savez(tmp_path / "argmax.npz", **argmax)
    assert expected > read_source(tmp_path / "argmax.npz").error + 0.05
    assert push(lite_client, file).json()["error"] == pytest.approx(expected, abs=1e-12)


def labelled_file(folder):
    """The rows of `thresholded` as Parquet, one an hour from March 2026 on."""
    data = thresholded()
    start = datetime(2026, 3, 1, tzinfo=timezone.utc)
    columns = {f"prob_{name}": data["probs"][:, j] for j, name in enumerate(NAMES)}
    columns |= {"label": data["labels"], "prediction": data["predictions"], "weight": data["weights"]}
    columns["when"] = [start + timedelta(hours=i) for i in range(400)]
    parquet.write_table(pa.table(columns), folder / "all.parquet")
    return folder / "all.parquet"


def test_a_replayed_file_gives_the_source_its_decisions_and_weights(lite, tmp_path):
    data = thresholded()
    form, settings = ReadOptions(weight="weight"), {"window": "week", "replicates": 20}
    replay(lite, labelled_file(tmp_path), "when", settings=settings, form=form)
    head = {name: values if name == "classes" else values[:80] for name, values in data.items()}
    np.savez(tmp_path / "head.npz", **head)
    (version,) = get_model(lite, "replay").versions
    assert version.source_error == pytest.approx(read_source(tmp_path / "head.npz").error, abs=1e-9)


def test_a_replay_leaves_other_models_alone(lite_client, tmp_path):
    """Their jobs are set for today, which a replay of last spring must not take for a clock that went back."""
    lite_client.put("/v1/models/m/versions/v1/source", content=source_npz()).raise_for_status()
    lite_client.put("/v1/models/m/settings", json={"limits": {"silence_hours": 48}}).raise_for_status()
    rows, _ = rows_json(20, day=0)
    lite_client.post("/v1/models/m/predictions", json={"rows": rows}).raise_for_status()
    before = lite_client.get("/v1/models/m").json()
    replay(lite_client.store, labelled_file(tmp_path), "when", settings={"window": "week", "replicates": 20})
    assert lite_client.get("/v1/models/m").json() == before
    run_due_jobs(lite_client.store)
    assert not lite_client.get("/v1/models/m/alerts").json()["alerts"]


def arrow_source(countries):
    with np.load(io.BytesIO(source_npz())) as file:
        z, labels = file["logits"], file["labels"]
    columns = {f"logit_{j}": z[:, j] for j in range(z.shape[1])}
    return pa.table({**columns, "label": labels, "segment_country": countries})


def drivers(client):
    client.put("/v1/models/m/settings", json={"segments": ["country"]}).raise_for_status()
    rows, _ = rows_json(200, segments=lambda i: {"country": "DE" if i % 4 else "FR"})
    client.post("/v1/models/m/predictions", json={"rows": rows}).raise_for_status()
    run_due_jobs(client.store)
    (window,) = client.get("/v1/models/m/windows").json()["windows"]
    path = f"/v1/models/m/windows/{window['window']}/report"
    report = client.get(path, params={"format": "json"}).json()
    return [one["column"] for one in (report["drivers"] or {"columns": []})["columns"]]


@pytest.mark.parametrize("form", ["arrow", "parquet", "pushed", "pushed-column"])
def test_the_segments_of_a_source_are_used_in_every_form(lite_client, tmp_path, form):
    table = arrow_source(["DE", "FR"] * 150)
    if form == "arrow":
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        kind, body = "application/vnd.apache.arrow.stream", out.getvalue().to_pybytes()
    else:
        if form == "pushed-column":
            names = ["country" if name == "segment_country" else name for name in table.column_names]
            table = table.rename_columns(names)
        parquet.write_table(table, tmp_path / "source.parquet")
        kind, body = "application/vnd.apache.parquet", (tmp_path / "source.parquet").read_bytes()
    if form.startswith("pushed"):
        columns = ["country"] if form == "pushed-column" else []
        push(lite_client, tmp_path / "source.parquet", columns).raise_for_status()
    else:
        path = "/v1/models/m/versions/v1/source"
        lite_client.put(path, content=body, headers={"content-type": kind}).raise_for_status()
    assert drivers(lite_client) == ["country"]


def test_segments_that_do_not_belong_to_the_rows_are_refused(lite_client, tmp_path):
    file = tmp_path / "source.npz"
    np.savez(file, **thresholded(), segment_country=np.array(["DE"] * 399))
    answer = lite_client.put("/v1/models/m/versions/v1/source", content=file.read_bytes())
    assert "segment_country" in problem(answer, 422)
