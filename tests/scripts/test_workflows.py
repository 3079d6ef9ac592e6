"""The workflows, the container and the release script speak of things that are there."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
yaml = pytest.importorskip("yaml")


def steps(workflow):
    held = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    return [step for job in held["jobs"].values() for step in job.get("steps", ())]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_command_is_there(workflow):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for line in (line.strip() for step in steps(workflow) for line in step.get("run", "").splitlines()):
        if line.startswith("make "):
            assert line.split()[1] in targets, line
        for script in re.findall(r"\b(?:scripts|examples)/[\w.]+", line):
            assert (ROOT / script).exists(), line
            assert script.endswith(".py") or os.access(ROOT / script, os.X_OK), line


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_least_rights_and_known_actions_by_commit(workflow):
    held = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert held["permissions"] == {"contents": "read"}
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"(actions/[a-z-]+|pypa/gh-action-pypi-publish)@[0-9a-f]{40}", step["uses"])
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"]["persist-credentials"] is False


def test_the_mutants_that_are_uploaded_are_those_that_are_written():
    """Files in a folder that begins with a dot are left out of an upload unless it asks for them."""
    workflow = ROOT / ".github" / "workflows" / "mutate.yml"
    (upload,) = [
        s["with"] for s in steps(workflow) if s.get("uses", "").startswith("actions/upload-artifact")
    ]
    folder, name = re.search(
        r'ROOT / "([^"]+)" / f"([^"]+)"', (ROOT / "scripts" / "mutate.py").read_text()
    ).groups()
    assert Path(folder, name).match(upload["path"])
    assert upload["include-hidden-files"] is True


def test_one_action_has_one_commit():
    pinned = {step["uses"] for workflow in WORKFLOWS for step in steps(workflow) if "uses" in step}
    assert len({action.partition("@")[0] for action in pinned}) == len(pinned)


def test_ci_runs_every_test_once():
    """The checks, the quick tests, then what these left out."""
    targets = re.findall(r"^make (\S+)", (ROOT / ".ci" / "run").read_text(), re.M)
    assert targets == ["check", "test", "test-rest"]
    makefile = (ROOT / "Makefile").read_text()
    assert '-m "not ($(LEFT_OUT))"' in makefile
    assert '-m "$(LEFT_OUT) or extended"' in makefile


def test_the_quick_tests_need_a_light_environment():
    extra = re.search(r"^dev = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S)[1]
    assert "pytest" in extra
    for heavy in ("torch", "transformers", "accelerate", "datasets", "spark", "playwright", "docs", "mkdocs"):
        assert heavy not in re.findall(r"[a-z]+", extra), heavy


def test_every_python_that_we_name_is_tested():
    held = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text())
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert held["jobs"]["test"]["strategy"]["matrix"]["python"] == named


def test_the_container_copies_what_is_there_and_not_ignored():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert {"src", "pyproject.toml"} <= set(copied)
    assert "USER shiftgauge" in lines
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name


def test_a_tag_must_be_the_version(tmp_path):
    """On a copy of the files that the script reads."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "src" / "shiftgauge").mkdir(parents=True)
    (tmp_path / "scripts" / "check_release").write_text((ROOT / "scripts" / "check_release").read_text())
    (tmp_path / "src" / "shiftgauge" / "_version.py").write_text('"""."""\n\n__version__ = "1.2.3"\n')
    (tmp_path / "CITATION.cff").write_text("version: 1.2.3\n")
    (tmp_path / "pyproject.toml").write_text('Repository = "https://example.org"\n')

    def check(tag, changes):
        (tmp_path / "CHANGELOG.md").write_text(changes)
        script = tmp_path / "scripts" / "check_release"
        return subprocess.run(["bash", script, tag], capture_output=True, text=True, check=False).returncode

    assert check("v1.2.3", "## 1.2.3 (2030-01-31)\n") == 0
    assert check("v1.2.4", "## 1.2.3 (2030-01-31)\n") == 1
    assert check("v1.2.3", "## 1.2.3 (unreleased)\n") == 1
    assert check("v1.2.3", "## 1.2.2 (2030-01-31)\n") == 1
    (tmp_path / "pyproject.toml").write_text("")
    assert check("v1.2.3", "## 1.2.3 (2030-01-31)\n") == 1
