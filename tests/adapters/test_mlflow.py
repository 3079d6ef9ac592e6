"""Results in a real MLflow, with a database and a folder of artifacts of its own."""

import json

import numpy as np
import pytest

import shiftgauge as sg

pytestmark = pytest.mark.slow  # MLflow takes seconds to import and to make its database
N = 300


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=2 * N)
    z = rng.normal(size=(2 * N, 2)) + 2.0 * np.eye(2)[y]
    return sg.Source(z[:N], y[:N]), sg.Target(z[N:])


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        mlflow = pytest.importorskip("mlflow")
        folder = tmp_path_factory.mktemp("mlflow")
        mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
        made = mlflow.create_experiment("shiftgauge", artifact_location=(folder / "artifacts").as_uri())
        mlflow.set_experiment(experiment_id=made)
        yield mlflow


def logged(mlflow, run, name):
    return mlflow.artifacts.load_text(f"runs:/{run}/shiftgauge/{name}")


def test_an_estimate_in_the_active_run(mlflow, samples):
    found = sg.estimate(*samples)
    with mlflow.start_run() as active:
        assert sg.log_mlflow(found) == active.info.run_id
    data = mlflow.get_run(active.info.run_id).data
    assert data.metrics["estimate.error"] == found.error
    assert data.metrics["estimate.range.low"] == found.range.low
    assert data.metrics["estimate.range.high"] == found.range.high
    assert data.tags["shiftgauge.version"] == sg.__version__
    assert json.loads(logged(mlflow, active.info.run_id, "estimate.json")) == json.loads(found.to_json())


def test_a_timeline_has_a_step_per_period_and_a_table(mlflow, samples):
    found = sg.timeline(*samples, every=100)
    with mlflow.start_run() as active:
        pass
    run = sg.log_mlflow(found, name="weekly", run_id=active.info.run_id)
    history = mlflow.MlflowClient().get_metric_history(run, "weekly.error")
    assert {one.step: one.value for one in history} == {i: p.error for i, p in enumerate(found.periods)}
    table = json.loads(logged(mlflow, run, "weekly-table.json"))
    shown = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [one["period"] for one in shown] == ["rows 0-99", "rows 100-199", "rows 200-299"]
    assert [one["error"] for one in shown] == pytest.approx([p.error for p in found.periods])


def test_a_comparison_and_a_report_in_a_new_run(mlflow, samples):
    compared = sg.compare(*samples, ["ac", "entropy"])
    run = sg.log_mlflow(compared)  # there is no active run: one is started
    page = sg.report(*samples, replicates=0)
    assert sg.log_mlflow(page) == run
    mlflow.end_run()
    metrics = mlflow.get_run(run).data.metrics
    assert metrics["comparison.ac.error"] == compared["ac"].error
    assert metrics["comparison.entropy.score"] == compared["entropy"].score
    assert metrics["report.error"] == page.summary["answer"]["error"]
    assert logged(mlflow, run, "report.html") == page.to_html()


def test_names_that_mlflow_refuses(mlflow, samples):
    run = sg.log_mlflow(sg.estimate(*samples), name="site: a|b")
    mlflow.end_run()
    assert "site_ a_b.error" in mlflow.get_run(run).data.metrics
