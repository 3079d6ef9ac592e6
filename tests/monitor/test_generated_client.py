"""A client that openapi-python-client made from the server's OpenAPI alone talks to a real server."""

import importlib
import json
import subprocess
import sys

import pytest
from monitor_data import K, labels_json, rows_json, run_due_jobs, source_npz
from test_client import served

from shiftgauge.monitor.db.models import put_source

pytest.importorskip("openapi_python_client")
pytestmark = pytest.mark.slow


@pytest.fixture
def generated(lite, tmp_path, monkeypatch):
    """Where the server is, and the modules of the client."""
    with served(lite) as url:
        config = tmp_path / "config.yml"
        config.write_text("post_hooks: []\n")
        command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
        command += [
            "--url",
            f"{url}/openapi.json",
            "--config",
            config,
            "--output-path",
            tmp_path / "generated",
        ]
        said = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, timeout=300, check=False
        )
        assert said.returncode == 0, said.stdout + said.stderr
        # It can send JSON alone, and says so of Arrow, Parquet and npz; everything else is generated.
        problems = [
            line for line in said.stdout.splitlines() if line.startswith(("Unsupported", "Unable", "ERROR"))
        ]
        assert all("Unsupported content type application/" in line for line in problems), said.stdout
        monkeypatch.syspath_prepend(tmp_path)
        with importlib.import_module("generated").Client(base_url=url) as client:
            yield client, lambda name: importlib.import_module(f"generated.{name}")
        for name in [name for name in sys.modules if name.split(".")[0] == "generated"]:
            del sys.modules[name]


def test_every_operation_is_generated_and_typed(generated, lite):
    """Rows and labels are sent; the model's state, windows, settings and alerts are read as typed values."""
    client, module = generated
    models = module("models")
    put_source(lite, "m", "v1", source_npz(), "npz")
    settings = module("api.results.put_the_settings")
    change = models.SettingsChange(replicates=20, limits=models.AlertLimitsChange(error=0.01))
    answer = settings.sync(model="m", client=client, body=change)
    assert (answer.replicates, answer.limits.error, answer.window) == (20, 0.01, "day")
    again = settings.sync(model="m", client=client, body=models.SettingsChange(level=0.8))
    assert (again.replicates, again.level) == (20, 0.8)  # what is not sent stays

    rows, labels = rows_json(120, segments={"country": "DE"})
    body = models.Predictions.from_dict({"rows": rows})
    post = module("api.data.post_predictions")
    assert post.sync(model="m", client=client, body=body).accepted == 120
    assert post.sync(model="m", client=client, body=body).duplicates == 120
    sent = models.LabelsBody.from_dict({"labels": labels_json(rows[:50], labels[:50])})
    said = module("api.data.post_labels").sync(model="m", client=client, body=sent)
    assert (said.accepted, said.unmatched) == (50, 0)
    run_due_jobs(lite)

    model = module("api.results.get_one_model").sync(model="m", client=client)
    assert (model.rows, model.versions[0].name) == (120, "v1")
    (window,) = module("api.results.get_windows").sync(model="m", client=client).windows
    assert window.rows == 120
    assert window.range_.low <= window.error <= window.range_.high
    held = module("api.results.get_the_settings").sync(model="m", client=client)
    assert held.to_dict() == again.to_dict()
    alerts = module("api.results.get_alerts").sync(model="m", client=client).alerts
    assert [alert.rule for alert in alerts] == ["error"]
    asked = models.LabelRequestBody(labels=10)
    picked = module("api.results.post_label_requests").sync(model="m", client=client, body=asked).rows
    assert {row.id for row in picked} <= {row["id"] for row in rows}


def test_problems_are_typed(generated, lite):
    client, module = generated
    models = module("models")
    put_source(lite, "m", "v1", source_npz(), "npz")
    missing = module("api.results.get_one_model").sync(model="nobody", client=client)
    assert isinstance(missing, models.ProblemBody)
    assert (missing.status, missing.type_) == (404, "urn:shiftgauge:problem:unknown-model")
    rows, _ = rows_json(1)
    bad = models.Predictions.from_dict({"rows": [{**rows[0], "logits": [1.0] * (K + 1)}]})
    refused = module("api.data.post_predictions").sync(model="m", client=client, body=bad)
    assert refused.status == 422
    assert "4 classes" in refused.detail
    assert json.loads(json.dumps(refused.to_dict()))["title"] == "Invalid content"
