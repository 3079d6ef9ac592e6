"""The GitHub Action: its shell steps run against a local server that stands in for GitHub's REST API."""

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import numpy as np
import pytest

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.slow  # each run starts the command twice
ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


class GitHub(ThreadingHTTPServer):
    """The comments of one pull request, a page at a time."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments, self.calls, self.refuse = [], [], False

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def _answer(self, code, content):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def _serve(self):
        at = urlparse(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        content = json.loads(self.rfile.read(length)) if length else None
        self.server.calls.append((self.command, at.path))
        if self.server.refuse or self.headers["Authorization"] != "Bearer secret":
            return self._answer(403, {"message": "Resource not accessible by integration"})
        comments = self.server.comments
        if self.command == "GET" and at.path == "/repos/me/model/issues/7/comments":
            asked = {name: int(values[0]) for name, values in parse_qs(at.query).items()}
            first = (asked["page"] - 1) * asked["per_page"]
            return self._answer(200, comments[first : first + asked["per_page"]])
        if self.command == "POST" and at.path == "/repos/me/model/issues/7/comments":
            comments.append({"id": 1000 + len(comments), "body": content["body"]})
            return self._answer(201, comments[-1])
        found = re.fullmatch(r"/repos/me/model/issues/comments/(\d+)", at.path)
        one = next((c for c in comments if found and c["id"] == int(found[1])), None)
        if self.command == "PATCH" and one is not None:
            one["body"] = content["body"]
            return self._answer(200, one)
        return self._answer(404, {})

    do_GET = do_POST = do_PATCH = _serve  # noqa: N815

    def log_message(self, *args):
        pass


@pytest.fixture
def github():
    server = GitHub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def folder(tmp_path):
    """A checkout with scores, the event, and the command."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    z = rng.normal(size=(600, 2)) + 2.0 * np.eye(2)[y]
    np.savez(tmp_path / "val.npz", logits=z[:300], labels=y[:300])
    np.savez(tmp_path / "new scores.npz", logits=0.5 * z[300:])
    (tmp_path / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
    command = tmp_path / "bin" / "shiftgauge"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m shiftgauge "$@"\n')
    command.chmod(0o755)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    return tmp_path


def expand(text, values):
    """`${{ name }}`, as the runner replaces it; every name must be known."""
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: values[found[1]], text)


def run_action(folder, github, **inputs):
    """Run the steps in order, each with its own environment; returns what they printed, and the last exit code."""
    values = {"github.action_path": str(ROOT), "github.token": "secret"}
    given = {"source": "val.npz", "target": "new scores.npz", "install": "", **inputs}
    for name, one in ACTION["inputs"].items():
        values[f"inputs.{name}"] = given.pop(name, None) or expand(one.get("default", ""), values)
    assert given in ({}, {"install": ""})
    printed = ""
    for step in ACTION["runs"]["steps"]:
        if step["name"] == "Install shiftgauge":
            continue
        out = folder / f"output-{step.get('id')}"
        out.write_text("")
        env = {
            **os.environ,
            **{name: expand(text, values) for name, text in step["env"].items()},
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "GITHUB_API_URL": github.url,
            "GITHUB_REPOSITORY": "me/model",
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_OUTPUT": str(out),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        }
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600
        )
        printed += done.stdout + done.stderr
        for line in out.read_text().splitlines():
            name, _, value = line.partition("=")
            values[f"steps.{step['id']}.outputs.{name}"] = value
        if done.returncode:
            return done.returncode, printed, values
    return 0, printed, values


def test_it_comments_once_and_updates_the_comment(folder, github):
    github.comments += [{"id": i, "body": "looks good"} for i in range(100)]  # the mark is on the second page
    code, printed, values = run_action(folder, github, **{"fail-above": "0.9"})
    assert code == 0, printed
    (made,) = github.comments[100:]
    assert made["body"].startswith("<!-- shiftgauge estimate -->\n")
    assert "is not above the limit of 90.0%" in made["body"]
    error = float(values["steps.comment.outputs.error"])
    assert f"## Estimated error {100 * error:.1f}%" in made["body"]
    assert made["body"] in (folder / "summary.md").read_text()
    assert float(values["steps.comment.outputs.low"]) < error < float(values["steps.comment.outputs.high"])
    code, printed, values = run_action(folder, github, **{"fail-above": "0.01", "on": "low"})
    assert (code, values["steps.comment.outputs.exceeded"]) == (1, "true"), printed
    assert "::error::" in printed
    assert len(github.comments) == 101  # the same comment
    assert "is **above** the limit of 1.0%" in made["body"]
    assert [call for call, _ in github.calls] == ["GET", "GET", "POST", "GET", "GET", "PATCH"]


def test_a_token_that_may_not_comment_does_not_fail_the_check(folder, github):
    github.refuse = True
    code, printed, _ = run_action(folder, github)
    assert code == 0
    assert "::warning::the estimate was not commented on the pull request: HTTP Error 403" in printed


def test_bad_files_fail_with_the_command_s_line(folder, github):
    code, printed, _ = run_action(folder, github, target="missing.npz")
    assert code == 2
    assert "shiftgauge: missing.npz: no such file" in printed
    assert github.calls == []


def test_inputs_reach_the_shell_as_variables_only():
    """No `${{ }}` in a script: an input is never read as code."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
    assert ACTION["runs"]["using"] == "composite"
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])
