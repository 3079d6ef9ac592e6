"""What is shipped for containers: read as far as it can be without an engine, and run where a tool is there."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from monitor_data import labels_json, rows_json, run_due_jobs
from test_api import post, put_source

from shiftgauge.cli.app import app

yaml = pytest.importorskip("yaml")
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NAMES = re.compile(r"\bshiftgauge_[a-z_]+")


def load(name):
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


@pytest.fixture
def served_names(lite_client):
    """Every series that a monitor with rows, labels and alerts serves."""
    client = lite_client
    put_source(client)
    settings = {
        "segments": ["s"],
        "limits": {"silence_hours": 0.001},
        "webhook": {"url": "http://127.0.0.1:9/"},
    }
    client.put("/v1/models/m/settings", json=settings)
    rows, labels = rows_json(60, segments={"s": "a"})
    post(client, rows)
    client.post("/v1/models/m/labels", json=labels_json(rows, labels))
    run_due_jobs(client.store)
    return set(re.findall(r"^(shiftgauge_[a-z_]+)\{", client.get("/metrics").text, re.M))


def test_every_query_of_the_dashboard_and_the_rules_is_served(served_names):
    board = json.loads((DEPLOY / "grafana" / "dashboards" / "shiftgauge.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [rule["expr"] for group in load("rules.yaml")["groups"] for rule in group["rules"]]
    asked += [variable["query"] for variable in board["templating"]["list"]]
    names = {name for expr in asked for name in NAMES.findall(expr)}
    assert names
    assert names <= served_names


def test_prometheus_names_follow_its_conventions(lite_client):
    put_source(lite_client)
    text = lite_client.get("/metrics").text
    for kind, name in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
        assert kind.startswith("shiftgauge_")
        assert (name == "counter") == kind.endswith("_total")
        assert "percent" not in kind


def test_compose_names_what_exists():
    compose = load("compose.yaml")
    assert set(compose["services"]) == {"monitor", "worker", "token", "postgres", "prometheus", "grafana"}
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            where = volume.split(":")[0]
            known = where in compose["volumes"] or where == "./prometheus.token"  # made by whoever runs it
            assert known or (DEPLOY / where).exists(), volume
        for needed in service.get("depends_on", ()):
            assert needed in compose["services"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    image = (DEPLOY / compose["services"]["monitor"]["build"] / "Dockerfile").read_text()
    assert "[monitor,notify]" in image  # alerts by email, Slack, Teams, ... need apprise


def test_the_commands_of_the_containers_are_the_commands_we_have():
    import typer

    for name in ("monitor", "worker", "token"):
        words = load("compose.yaml")["services"][name]["command"]
        command = typer.main.get_command(app)
        for word in words:
            if not word.startswith("--") and hasattr(command, "commands"):
                command = command.commands[word]
        options = {opt for parameter in command.params for opt in parameter.opts}
        for word in words:
            if word.startswith("--"):
                assert word.split("=")[0] in options


def test_no_password_is_part_of_a_command():
    """Every user of a machine can list its processes with their arguments."""
    for service in load("compose.yaml")["services"].values():
        assert "PASSWORD" not in str(service.get("command", ""))
    for name in ("monitor", "worker", "token"):
        assert "PGPASSWORD" in load("compose.yaml")["services"][name]["environment"]


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool here (Debian: apt-get install prometheus)"
)
@pytest.mark.parametrize(
    "words",
    [
        ["check", "rules", "rules.yaml"],
        ["check", "config", "--syntax-only", "prometheus.yaml"],
        ["test", "rules", "rules_test.yaml"],
    ],
)
def test_promtool(words):
    done = subprocess.run(
        ["promtool", *words], cwd=DEPLOY, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool here (Debian: apt-get install prometheus)"
)
def test_promtool_likes_our_metrics(lite_client):
    put_source(lite_client)
    post(lite_client, rows_json(60)[0])
    run_due_jobs(lite_client.store)
    text = lite_client.get("/metrics").text
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
