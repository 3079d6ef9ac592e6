"""Write what the package answers today to tests/frozen/, so that a rebuilding can be compared with it.

    python scripts/freeze.py            # writes answers.json and interface.json
    python scripts/freeze.py --compare  # prints every difference beyond its tolerance; exit code 1 if there is one

Answers of closed forms, COT and COTT are compared to 1e-12; what is iterated (temperature, SCOT, MLLS, `auto`) to
1e-8; what is resampled to 0.1 points. tests/frozen/ goes when the rebuilding is done.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import shiftgauge as sg

FOLDER = Path(__file__).parent.parent / "tests" / "frozen"
#: What is fitted or solved by iteration; everything else with `calibration="none"` is a closed form.
ITERATED = ("scot", "label-shift", "auto", "cbpe")
EXACT, CLOSE, DRAWN = 1e-12, 1e-8, 1e-3


def scores(
    n: int, k: int, seed: int, noise: float = 1.5, prior: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels of a model whose classes k follow a linear prior."""
    rng = np.random.default_rng([seed, n, k])
    shares = 1.0 + prior * np.arange(k)
    y = rng.choice(k, size=n, p=shares / shares.sum())
    z = noise * rng.normal(size=(n, k))
    z[np.arange(n), y] += 2.5
    return z, y


def softmax(z: np.ndarray) -> np.ndarray:
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def samples(form: str, n: int, k: int) -> tuple[sg.Source, sg.Target]:
    """A source and a shifted target in one of the forms that users bring."""
    z, y = scores(min(n, 5000), k, 1)
    y[:k] = np.arange(k)[: len(y)]
    new, _ = scores(n, k, 2, noise=2.0, prior=1.0 / k)
    rng = np.random.default_rng([n, k])
    second = scores(n, k, 3)[0].argmax(1)
    left: dict[str, Any] = {"logits": z, "labels": y}
    right: dict[str, Any] = {"logits": new, "second": second}
    if form == "probabilities":
        left, right = {"probs": softmax(z), "labels": y}, {"probs": softmax(new), "second": second}
    elif form == "weights":
        left["weights"], right["weights"] = rng.random(len(y)) + 0.1, rng.random(n) + 0.1
    elif form == "decisions":
        left["predictions"] = np.where(rng.random(len(y)) < 0.2, 0, z.argmax(1))
        right["predictions"] = np.where(rng.random(n) < 0.2, 0, new.argmax(1))
    elif form == "names":
        names = [f"class {j}" for j in range(k)]
        order = rng.permutation(k)
        left = {"logits": z, "labels": [names[j] for j in y], "classes": names}
        right = {
            "logits": new[:, order],
            "classes": [names[j] for j in order],
            "second": [names[j] for j in second],
        }
    elif form == "zeros":
        left, right = {"probs": _with_zeros(z), "labels": y}, {"probs": _with_zeros(new), "second": second}
    elif form == "ties":
        left, right = {"logits": np.round(z), "labels": y}, {"logits": np.round(new), "second": second}
    return sg.Source(**left), sg.Target(**right)


def _with_zeros(z: np.ndarray) -> np.ndarray:
    p = softmax(2.0 * z)
    p[p < 0.05] = 0.0
    return p / p.sum(axis=1, keepdims=True)


def method_answers() -> Iterator[tuple[str, float, Callable[[], Any]]]:
    """Every method in every form, by name: (name, tolerance, what computes it)."""
    version_formats = ("logits", "probabilities", "weights", "decisions", "names", "zeros", "ties")
    grid = [(form, 2000, k) for form in version_formats for k in (2, 10)]
    grid += [("logits", 2000, 300), ("logits", 30, 2), ("logits", 30, 10), ("probabilities", 450_000, 10)]
    for form, n, k in grid:
        source, target = samples(form, n, k)
        for method, kind in sg.methods.METHODS.items():
            if form == "decisions" and kind.needs_argmax:
                continue
            for calibration in (
                ("temperature", "none") if form == "logits" and n == 2000 else ("temperature",)
            ):
                exact = calibration == "none" and method not in ITERATED
                name = f"{method}/{form}/{n}x{k}/{calibration}"
                yield (
                    name,
                    EXACT if exact else CLOSE,
                    lambda s=source, t=target, m=method, c=calibration: number(
                        sg.estimate(s, t, m, calibration=c)
                    ),
                )
    source, target = samples("logits", 2000, 10)
    for method in ("cot", "cott", "scot"):
        for marginal in ("shrunk", "bbse", "rlls", "mlls"):
            yield (
                f"{method}/marginal/{marginal}",
                CLOSE,
                lambda m=method, q=marginal: number(sg.estimate(source, target, m, marginal=q)),
            )


def number(found: Any) -> dict[str, Any]:
    """An estimate as plain numbers."""
    out = {"error": found.error, "score": found.score}
    if found.method == "auto":
        out |= {"low": found.range.low, "high": found.range.high, "choice": found.details["choice"]}
    return out


def function_answers() -> Iterator[tuple[str, float, Callable[[], Any]]]:
    """Every public function once or twice."""
    source, target = samples("logits", 2000, 4)
    new, truth = scores(2000, 4, 2, noise=2.0, prior=0.25)
    groups = np.array(["a", "b", "c", "d"])[np.arange(2000) % 4]
    yield "compare", CLOSE, lambda: sg.compare(source, target, target_labels=truth).to_dict()
    for method in ("ac", "cott", "scot", "auto"):
        yield (
            f"interval/{method}",
            DRAWN,
            lambda m=method: sg.interval(source, target, m, replicates=40).to_dict(),
        )
    yield "shift_test", CLOSE, lambda: sg.shift_test(source, target).to_dict()
    yield "metrics", CLOSE, lambda: sg.metrics(source, target).to_dict()
    yield "metrics/scot", CLOSE, lambda: sg.metrics(source, target, "scot").to_dict()
    yield "slices", DRAWN, lambda: sg.slices(source, target, groups, replicates=40).to_dict()
    yield "doctor", CLOSE, lambda: sg.doctor(source, target).to_dict()
    yield "ceiling", CLOSE, lambda: sg.ceiling(source, target).to_dict()
    yield "ceiling/0.8", CLOSE, lambda: sg.ceiling(source, target, level=0.8).to_dict()
    yield "suitable", CLOSE, lambda: sg.suitable(source, target, 0.1).to_dict()
    yield "label_shares", DRAWN, lambda: sg.label_shares(source, target, "mlls", replicates=30).to_dict()
    yield "budget", CLOSE, lambda: sg.budget(source, target, count=50).to_dict()
    yield "with_labels", CLOSE, lambda: _with_labels(source, target, truth)
    yield "backtest", CLOSE, lambda: sg.backtest(source, by=groups[: source.n], repeats=1).to_dict()
    other = samples("logits", 2000, 4)[0], sg.Target(logits=1.2 * new)
    yield "rank", CLOSE, lambda: sg.rank({"one": (source, target), "two": other}).to_dict()
    yield (
        "aline",
        CLOSE,
        lambda: _plain(sg.aline({"one": (source, target), "two": other, "three": (source, other[1])})),
    )
    yield "report", DRAWN, lambda: _without(sg.report(source, target, replicates=50).to_dict(), "provenance")
    yield "proportions/same", CLOSE, lambda: number(sg.estimate(source, target, proportions="same"))
    yield "proportions/changed", CLOSE, lambda: number(sg.estimate(source, target, proportions="changed"))
    demo = sg.demo_data()
    for name in demo.targets:
        yield f"demo/{name}", CLOSE, lambda n=name: number(sg.estimate(demo.source, demo.targets[n]))
    for method in ("cot", "cott"):
        yield (
            f"demo/{method}",
            EXACT,
            lambda m=method: number(
                sg.estimate(demo.source, demo.targets["glass_blur"], m, calibration="none")
            ),
        )


def _with_labels(source: Any, target: Any, truth: Any) -> Any:
    plan = sg.budget(source, target, count=60)
    return sg.with_labels(plan, target, {int(r): int(truth[r]) for r in plan.rows}).to_dict()


def _plain(found: Any) -> Any:
    return found.to_dict() if hasattr(found, "to_dict") else found


def _without(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}


COMMANDS: tuple[str, ...] = (
    "estimate s.npz t.npz --json",
    "estimate s.npz t.npz -m all --json",
    "estimate s.npz t.npz -m scot --marginal mlls --json",
    "estimate s.npz t.npz --proportions changed --json",
    "estimate s.npz t.npz --level 0.8 --json",
    "estimate s.npz t.npz -m ac --replicates 30 --json",
    "estimate s.npz t.npz --fail-above 0.01 --json",
    "estimate s.npz t.npz --fail-above 0.9 --on ceiling --json",
    "estimate s.npz labelled.npz --check --json",
    "estimate s.csv t.csv --json",
    "estimate s.csv t.parquet --calibration none --json",
    "doctor s.npz t.npz --json",
    "metrics s.npz t.npz --json",
    "metrics s.npz t.npz --shares bbse --replicates 20 --json",
    "slices s.npz t.csv --by group --replicates 20 --json",
    "backtest s.csv --by group --repeats 1 --json",
    "budget s.npz t.npz --count 40 --json",
    "methods --json",
    "demo --json",
    "monitor replay dated.csv --time time --store kept --json",
    "estimate s.npz",
    "estimate s.npz missing.npz",
    "estimate s.npz t.npz -m nothing",
    "estimate s.npz t.npz --level 2",
    "estimate s.npz t.npz --fail-above 20",
    "estimate s.npz t.npz -m ac --proportions same",
    "estimate s.npz t.npz --marginal mlls",
    "estimate bad.csv t.npz",
    "estimate s.npz wide.npz",
    "slices s.npz t.csv --by nowhere",
    "metrics s.npz t.npz -m entropy",
    "nothing",
)


def command_answers() -> Iterator[tuple[str, float, Callable[[], Any]]]:
    """Commands with their JSON, exit codes and error lines."""
    for words in COMMANDS:
        drawn = "--replicates" in words or words.startswith(("slices", "monitor"))
        yield f"$ {words}", DRAWN if drawn else CLOSE, lambda w=words: _ran(w)


def _ran(words: str) -> dict[str, Any]:
    import subprocess

    with tempfile.TemporaryDirectory() as folder:
        _write_files(Path(folder))
        ran = subprocess.run(
            [sys.executable, "-m", "shiftgauge", *words.split()],
            cwd=folder,
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )
    out: dict[str, Any] = {"code": ran.returncode}
    with contextlib.suppress(json.JSONDecodeError):
        out["json"] = json.loads(ran.stdout)
        if isinstance(out["json"], dict) and "provenance" in out["json"]:
            out["json"]["provenance"].pop("made", None)  # the time of the run
    if ran.returncode == 2:
        out["line"] = ran.stderr.strip().replace(folder, "FOLDER")
    return out


def _write_files(folder: Path) -> None:
    import pandas as pd

    z, y = scores(600, 3, 7)
    new, truth = scores(400, 3, 8, noise=2.0)
    np.savez(folder / "s.npz", logits=z, labels=y)
    np.savez(folder / "t.npz", logits=new)
    np.savez(folder / "labelled.npz", logits=new, labels=truth)
    np.savez(folder / "wide.npz", logits=np.zeros((5, 7)))
    names = ["logit_cat", "logit_dog", "logit_owl"]
    group = np.array(["x", "y"])
    left = pd.DataFrame(z, columns=names).assign(
        label=np.array(["cat", "dog", "owl"])[y], group=group[np.arange(600) % 2]
    )
    right = pd.DataFrame(new, columns=names).assign(group=group[np.arange(400) % 2])
    left.to_csv(folder / "s.csv", index=False)
    right.to_csv(folder / "t.csv", index=False)
    right.to_parquet(folder / "t.parquet")
    left.assign(time=pd.date_range("2026-01-01", periods=600, freq="15min", tz="UTC").astype(str)).to_csv(
        folder / "dated.csv", index=False
    )
    (folder / "bad.csv").write_text("logit_cat,logit_dog,label\n1,2,cat\n1,nan,dog\n")


def answers() -> dict[str, dict[str, Any]]:
    """Every answer, with the tolerance that it is compared with; what is refused is frozen as its message."""
    out: dict[str, dict[str, Any]] = {}
    for group in (method_answers, function_answers, command_answers):
        for name, tolerance, compute in group():
            try:
                value = compute()
            except sg.ShiftgaugeError as problem:
                value = {"refused": str(problem)}
            out[name] = {"tolerance": tolerance, "value": json.loads(json.dumps(value, default=_number))}
            print(name, file=sys.stderr)
    return out


def _number(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def interface() -> dict[str, Any]:
    """Public names with their signatures, options of every command, the OpenAPI and the JSON schema."""
    import typer

    from shiftgauge.cli.app import app

    names = {}
    for name in sg.__all__:
        value = getattr(sg, name)
        with contextlib.suppress(TypeError, ValueError):
            names[name] = str(inspect.signature(value)) if callable(value) else type(value).__name__
        names.setdefault(name, type(value).__name__)
    root = typer.main.get_command(app)
    return {"names": names, "commands": _options(root), "openapi": _openapi(), "schema": _schema()}


def _options(command: Any, name: str = "") -> dict[str, list[str]]:
    out = {name: sorted(word for one in command.params for word in one.opts)}
    for sub, inner in getattr(command, "commands", {}).items():
        out |= _options(inner, f"{name} {sub}".strip())
    return out


def _openapi() -> Any:
    from shiftgauge.monitor.db.store import open_store
    from shiftgauge.monitor.run.app import create_app

    with tempfile.TemporaryDirectory() as folder:
        return create_app(open_store(folder)).openapi()


def _schema() -> Any:
    from importlib.resources import files

    return json.loads(files("shiftgauge").joinpath("data/schema.json").read_text())


def differences(old: Any, new: Any, tolerance: float, where: str = "") -> Iterator[str]:
    """Every place where two plain values differ by more than the tolerance."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}, key=str):
            if key not in old or key not in new:
                yield f"{where}.{key}: {'new' if key not in old else 'gone'}"
            else:
                yield from differences(old[key], new[key], tolerance, f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where}: {len(old)} entries before, {len(new)} now"
        for i, (a, b) in enumerate(zip(old, new, strict=False)):
            yield from differences(a, b, tolerance, f"{where}[{i}]")
    elif isinstance(old, float) and isinstance(new, int | float) and not isinstance(new, bool):
        if not abs(old - new) <= tolerance * max(1.0, abs(old)):
            yield f"{where}: {old!r} before, {new!r} now"
    elif old != new:
        yield f"{where}: {old!r:.160} before, {new!r:.160} now"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compare", action="store_true")
    compare = parser.parse_args().compare
    made, shape = answers(), interface()
    if not compare:
        FOLDER.mkdir(exist_ok=True)
        for name, value in (("answers", made), ("interface", shape)):
            (FOLDER / f"{name}.json").write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
        print(f"{len(made)} answers, {len(shape['names'])} names")
        return
    frozen = json.loads((FOLDER / "answers.json").read_text())
    found = [
        line
        for name, old in frozen.items()
        for line in differences(old["value"], made.get(name, {}).get("value"), old["tolerance"], name)
    ]
    print("\n".join(found) or f"{len(frozen)} answers, none differs")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    with contextlib.redirect_stderr(sys.stderr if "-v" in sys.argv else io.StringIO()):
        main()
