"""The commands: files in, tables or JSON out, exit codes, one clear line for bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from shiftgauge.cli import backtest, doctor, metrics, slices
from shiftgauge.errors import ShiftgaugeError


def scores(rng, n, k=4):
    """Calibrated scores whose reported logits are 1.5 times those of the true posterior."""
    z = 2.0 * rng.normal(size=(n, k))
    return 1.5 * z, (z + rng.gumbel(size=z.shape)).argmax(1)


app = typer.Typer()
for name, command in {
    "doctor": doctor.doctor,
    "backtest": backtest.backtest,
    "slices": slices.slices,
    "metrics": metrics.metrics,
}.items():
    app.command(name)(command)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    z, y = scores(rng, 1200)
    z_t, y_t = scores(rng, 1000)
    columns = {"site": np.arange(1200) % 2, "day": np.arange(1200), "hour": np.arange(1200) % 24}
    np.savez(folder / "source.npz", logits=z, labels=y, **columns)
    np.savez(folder / "target.npz", logits=z_t, site=np.arange(1000) % 3)
    return folder, y_t


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    # older runners mix progress from stderr into what they captured
    return "".join(line for line in result.stdout.splitlines(True) if not line.startswith("shiftgauge: "))


def test_doctor(files):
    folder, _ = files
    said = json.loads(run("doctor", folder / "source.npz", folder / "target.npz", "--json"))
    assert said["schema"] == 1
    assert {c["status"] for c in said["checks"]} <= {"ok", "caution", "stop"}
    assert {"statistic", "degrees_of_freedom", "reference", "reweighted_shares", "scot_bound"} <= set(
        said["shift_test"]
    )
    assert said["shift_test"]["difference_p_value"] > 0.0
    shown = " ".join(run("doctor", folder / "source.npz", folder / "target.npz", "--verbose").split())
    assert shown.startswith("ok: no check says stop")
    assert f"at least {100 * said['shift_test']['scot_bound']:.1f}%" in shown


def test_doctor_stops_with_exit_code_1(files, tmp_path):
    folder, _ = files
    held = dict(np.load(folder / "source.npz"))
    np.savez(tmp_path / "leaked.npz", logits=held["logits"], labels=held["logits"].argmax(1))
    run("doctor", tmp_path / "leaked.npz", folder / "target.npz", code=1)


def test_metrics(files, tmp_path):
    folder, _ = files
    np.savetxt(tmp_path / "cost.csv", 1 - np.eye(4), delimiter=",")
    arguments = ("metrics", folder / "source.npz", folder / "target.npz", "--cost", tmp_path / "cost.csv")
    said = json.loads(run(*arguments, "--json"))
    assert said["cost"] == pytest.approx(said["error"])
    assert np.array(said["confusion"]).shape == (4, 4)
    assert "precision" in run(*arguments, "--confusion")
    assert "weighted" in run(*arguments)
    for method in ("auto", "scot"):
        cost = json.loads(run(*arguments, "--json", "-m", method))["cost"]
        assert run(*arguments, "-m", method).splitlines()[1].startswith(f"cost {cost:.3f}")
    assert len(json.loads(run(*arguments, "--shares", "bbse", "--json"))["label_shares"]["classes"]) == 4


def test_metrics_shares(files):
    folder, _ = files
    arguments = ("metrics", folder / "source.npz", folder / "target.npz", "--json", "--replicates", "20")
    shares = [
        json.loads(run(*arguments, "--shares", "mlls", *more))["label_shares"]
        for more in ((), ("--level", "0.5"), ("--seed", "1"), ("--bias-correction",))
    ]
    assert [s["level"] for s in shares] == [0.9, 0.5, 0.9, 0.9]
    widths = [s["classes"][0]["high"] - s["classes"][0]["low"] for s in shares]
    assert widths[1] < widths[0] != widths[2]
    assert "bias correction" in shares[3]["method"]
    result = CliRunner().invoke(app, [*map(str, arguments), "--bias-correction"])
    assert isinstance(result.exception, ShiftgaugeError)
    assert "pass --shares mlls too" in str(result.exception)


@pytest.mark.parametrize("command", [("metrics",), ("slices", "--by", "site", "--replicates", "20")])
def test_warnings_are_shown(files, tmp_path, command):
    folder, _ = files
    held = dict(np.load(folder / "source.npz"))
    np.savez(tmp_path / "two.npz", logits=held["logits"][:2], labels=held["labels"][:2])
    arguments = (command[0], tmp_path / "two.npz", folder / "target.npz", *command[1:])
    warnings = json.loads(run(*arguments, "--json"))["warnings"]
    assert any("no source label is" in warning for warning in warnings)
    shown = run(*arguments)
    assert all(f"! {warning}" in " ".join(shown.split()) for warning in warnings)


def test_slices(files):
    folder, _ = files
    arguments = ("slices", folder / "source.npz", folder / "target.npz", "--by", "site", "--replicates", "30")
    said = json.loads(run(*arguments, "--json"))
    assert [s["name"] for s in said["slices"]] == ["0", "1", "2"]
    assert "not each slice" in run(*arguments)
    result = CliRunner().invoke(app, [*map(str, arguments[:3]), "--by", "sight"])
    assert isinstance(result.exception, ShiftgaugeError)
    assert "did you mean 'site'" in str(result.exception)
    result = CliRunner().invoke(app, [*map(str, arguments), "--by", "site"])
    assert isinstance(result.exception, ShiftgaugeError)
    assert "--by site: it was given twice" in str(result.exception)


def filled(rows, truth, column="label", lines=None):
    """The rows file with the truth in one more column."""
    head, *picks = rows.read_text().splitlines()
    full = [f"{line},{truth[int(line.split(',')[0])]}" for line in picks]
    full = full if lines is None else lines(full)
    rows.with_name("back.csv").write_text("\n".join([f'{head},"{column}"', *full]) + "\n")
    return rows.with_name("back.csv")


def refusal(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert isinstance(result.exception, ShiftgaugeError), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_backtest(files):
    folder, _ = files
    arguments = (
        "backtest",
        folder / "source.npz",
        "-m",
        "ac",
        "-m",
        "scot",
        "--repeats",
        "1",
        "--by",
        "site",
    )
    said = json.loads(run(*arguments, "--time", "day", "--json"))
    assert said["recommended"] in ("ac", "scot")
    assert {k["kind"] for k in said["kinds"]} >= {"time", "group", "new group", "none"}
    said = run(*arguments)
    assert said.startswith("recommended: ")
    made = run(*arguments[:-2])
    assert made.startswith("no method is recommended")
    assert "--by COLUMN" in made


def test_backtest_by_several_columns(files):
    folder, _ = files
    arguments = ("backtest", folder / "source.npz", "-m", "ac", "--repeats", "1", "--by", "site")
    said = json.loads(run(*arguments, "--by", "hour", "--json"))
    assert {"site=0", "site=1", "hour=0", "hour=23"} <= {
        entry["strength"] for part in ("trials", "not_tried") for entry in said[part]
    }
    shown = run(*arguments, "--by", "hour")
    assert "not tried: group (hour=0" in shown
    assert "recommended" not in shown
    result = CliRunner().invoke(app, [*map(str, arguments), "--by", "sight"])
    assert isinstance(result.exception, ShiftgaugeError)
    assert "did you mean 'site'" in str(result.exception)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_backtest_over_time(tmp_path, ending):
    """Numbers and dates sort as such from either kind of table; other text names the file and the row."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    z, y = scores(rng, 1000, k=3)
    y[500:] = (z[500:].argmax(1) + 1) % 3
    days = np.datetime64("2022-01-01") + np.arange(1000)
    table = pa.table(
        {
            **{f"logit_{j}": z[:, j] for j in range(3)},
            "label": y.astype(str),
            "number": np.arange(1000),
            "date": days,
            "stamp": days.astype("datetime64[ns]"),
            "american": [f"{d.astype(object):%m/%d/%Y}" for d in days],
        }
    )
    path = tmp_path / f"source.{ending}"
    {"csv": csv.write_csv, "parquet": parquet.write_table}[ending](table, path)
    arguments = ("backtest", path, "-m", "ac", "--repeats", "1", "--time")
    for column in ("number", "date", "stamp"):
        said = json.loads(run(*arguments, column, "--json"))
        assert [t["truth"] for t in said["trials"] if t["strength"] == "later half"] == [pytest.approx(1.0)]
    result = CliRunner().invoke(app, [*map(str, arguments), "american"])
    assert isinstance(result.exception, ShiftgaugeError)
    assert f"source.{ending}: 'american': row 0 is '01/01/2022'; wanted a number" in str(result.exception)
