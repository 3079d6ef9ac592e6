"""`shiftgauge estimate`: what it prints, what it writes, how it leaves."""

import csv
import json
from importlib import resources

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import shiftgauge as sg

NAMES = ["ant", "bee", "cat", "dog", "eel"]


def softmax(z):
    p = np.exp(z - z.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def table(scores, prefix="prob_", labels=None, label="label"):
    columns = {f"{prefix}{name}": scores[:, j] for j, name in enumerate(NAMES)}
    if labels is not None:
        columns[label] = [NAMES[j] for j in labels]
    return pa.table(columns)


def write_csv(path, data):
    from pyarrow import csv as arrow_csv

    arrow_csv.write_csv(data, path)
    return path


def test_json_is_the_library_s_answer_and_fits_the_schema(shiftgauge, files, source, target, scores):
    ran = shiftgauge("compare", *files, "--check", "--json")
    assert ran.code == 0
    schema = json.loads(resources.files("shiftgauge").joinpath("data/schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(ran.json, schema)
    expected = sg.compare(source, target, truth=scores["truth"]).to_dict()
    assert ran.json["estimates"] == json.loads(json.dumps(expected["estimates"]))
    assert ran.json["target"]["true_error"] == expected["target"]["true_error"]
    assert ran.json["source"]["path"] == str(files[0])
    cott = next(e for e in ran.json["estimates"] if e["method"] == "cott")
    assert set(cott["details"]["certificate"]) >= {"primal", "dual", "gap"}
    entropy = next(e for e in ran.json["estimates"] if e["method"] == "entropy")
    assert entropy["error"] is None
    assert entropy["score"] > 0
    assert all(e["details"]["temperature"] > 0 for e in ran.json["estimates"])


def test_the_schema_can_refuse(source, target):
    schema = json.loads(resources.files("shiftgauge").joinpath("data/schema.json").read_text())
    document = sg.compare(source, target, ["cott"]).to_dict()
    for damage in (
        lambda d: d["estimates"][0].pop("error"),
        lambda d: d["estimates"][0]["details"].pop("certificate"),
        lambda d: d["estimates"][0].update(error=12.3),
        lambda d: d.update(schema=2),
        lambda d: d["estimates"][0].update(error=None),
    ):
        damaged = json.loads(json.dumps(document))
        damage(damaged)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(damaged, schema)


def test_the_default_is_auto_and_the_table_speaks_percent(shiftgauge, files, source, target):
    ran = shiftgauge("estimate", *files)
    assert ran.code == 0
    error = sg.estimate(source, target).error
    assert sg.estimate(source, target).method == "auto"
    assert f"{100 * error:.1f}%" in ran.out
    assert "ATC" not in ran.out


def test_check_shows_each_miss(shiftgauge, files, source, target, scores):
    ran = shiftgauge("compare", *files, "-m", "ac", "-m", "scot", "--check")
    truth = np.mean(scores["shifted"].argmax(1) != scores["truth"])
    for method in ("ac", "scot"):
        miss = 100 * (sg.estimate(source, target, method=method).error - truth)
        assert f"{miss:+.1f}" in ran.out
    assert f"truth{100 * truth:.1f}%" in ran.out.replace(" ", "")


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "feather"])
@pytest.mark.parametrize("prefix", ["prob_", "logit_"])
def test_tables_agree_with_npz(shiftgauge, files, tmp_path, scores, form, prefix):
    expected = shiftgauge("estimate", *files, "--json").json["estimates"][0]["error"]
    paths = []
    for name, z, labels in (("s", scores["logits"], scores["labels"]), ("t", scores["shifted"], None)):
        data = table(z if prefix == "logit_" else softmax(z), prefix, labels)
        path = tmp_path / f"{name}.{form}"
        if form == "csv":
            write_csv(path, data)
        elif form == "parquet":
            parquet.write_table(data, path)
        else:
            feather.write_feather(data, path)
        paths.append(path)
    ran = shiftgauge("estimate", *paths, "--json")
    assert ran.json["estimates"][0]["error"] == pytest.approx(expected, abs=1e-9)
    assert ran.json["source"]["classes"] == NAMES


def test_prefixes_label_weights_and_predictions_by_name(shiftgauge, tmp_path, scores):
    p = softmax(scores["logits"])
    data = table(p, "p:", scores["labels"], label="truth")
    data = data.append_column("w", pa.array(np.ones(600))).append_column("said", pa.array(["ant"] * 600))
    path = write_csv(tmp_path / "s.csv", data)
    words = (
        "--prob-prefix",
        "p:",
        "--label-column",
        "truth",
        "--weight-column",
        "w",
        "--prediction-column",
        "said",
    )
    ran = shiftgauge("estimate", path, path, *words, "-m", "ac", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["source"]["error"] == pytest.approx(np.mean(scores["labels"] != 0))


def test_npy_says_what_it_holds(shiftgauge, tmp_path, scores):
    np.save(tmp_path / "s.npy", scores["logits"])
    np.save(tmp_path / "y.npy", scores["labels"])
    np.save(tmp_path / "t.npy", scores["shifted"])
    np.save(tmp_path / "ty.npy", scores["truth"])
    paths = (tmp_path / "s.npy", tmp_path / "t.npy")
    ran = shiftgauge("estimate", *paths, "--source-labels", tmp_path / "y.npy")
    assert (ran.code, "pass --logits or --probs" in ran.err) == (2, True)
    words = (
        "--logits",
        "--source-labels",
        tmp_path / "y.npy",
        "--truth",
        tmp_path / "ty.npy",
        "--json",
    )
    ran = shiftgauge("estimate", *paths, *words)
    assert ran.code == 0
    assert ran.json["target"]["true_error"] == pytest.approx(
        np.mean(scores["shifted"].argmax(1) != scores["truth"])
    )


def test_two_classes_in_one_column(shiftgauge, tmp_path):
    (tmp_path / "s.csv").write_text("prob,label\n0.9,spam\n0.2,ham\n0.6,ham\n0.7,spam\n")
    (tmp_path / "t.csv").write_text("prob\n0.8\n0.4\n")
    ran = shiftgauge("estimate", tmp_path / "s.csv", tmp_path / "t.csv")
    assert ran.code == 2
    assert "--positive NAME --negative NAME" in ran.err
    words = ("--positive", "spam", "--negative", "ham", "-m", "ac", "--calibration", "none", "--json")
    ran = shiftgauge("estimate", tmp_path / "s.csv", tmp_path / "t.csv", *words)
    assert ran.json["source"]["classes"] == ["ham", "spam"]
    assert ran.json["source"]["error"] == pytest.approx(0.25)
    assert ran.json["estimates"][0]["error"] == pytest.approx(0.3)


def test_fail_above(shiftgauge, files, source, target):
    error = sg.estimate(source, target).error
    ran = shiftgauge("estimate", *files, "--fail-above", error - 0.01, "--json")
    assert ran.code == 1
    assert ran.json["limit"] == {
        "method": "auto",
        "fail_above": pytest.approx(error - 0.01),
        "on": "error",
        "value": error,
        "exceeded": True,
        "above": {"low": False, "error": True, "ceiling": True},
    }
    assert shiftgauge("estimate", *files, "--fail-above", error + 0.01).code == 0
    ran = shiftgauge("estimate", *files, "-m", "scot", "--fail-above", 0.001)
    assert ran.code == 1
    scot = shiftgauge("estimate", *files, "-m", "scot", "--json").json["estimates"][0]["error"]
    assert ran.err.endswith(f"shiftgauge: error {100 * scot:.1f}% is above the limit of 0.1%\n")
    assert shiftgauge("estimate", *files, "--fail-above", 0.001, "--quiet").err.startswith(
        f"shiftgauge: error {100 * error:.1f}% is above the limit of 0.1% (range "
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [("20", "did you mean 0.2?"), ("-0.1", "from 0 to 1"), ("nan", "from 0 to 1"), ("x", "--fail-above")],
)
def test_fail_above_refuses(shiftgauge, files, value, message):
    ran = shiftgauge("estimate", *files, "--fail-above", value)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_fail_above_needs_an_error(shiftgauge, files):
    ran = shiftgauge("estimate", *files, "-m", "entropy", "--fail-above", "0.2")
    assert (ran.code, "entropy is a score" in ran.err) == (2, True)


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "npz"])
def test_rows(shiftgauge, files, tmp_path, target, ending):
    out = tmp_path / f"rows.{ending}"
    ran = shiftgauge("estimate", *files, "-m", "cot", "--save-rows", out, "--json")
    assert ran.code == 0
    if ending == "csv":
        with out.open() as file:
            rows = list(csv.DictReader(file))
        columns = {key: np.array([row[key] for row in rows], dtype=float) for key in rows[0]}
    elif ending == "npz":
        columns = dict(np.load(out))
    else:
        data = parquet.read_table(out) if ending == "parquet" else feather.read_table(out)
        columns = {name: data.column(name).to_numpy() for name in data.column_names}
    assert set(columns) == {
        "prediction",
        "confidence",
        "transport_label",
        "transport_cost",
        "error_probability",
    }
    assert (columns["prediction"] == target.predictions).all()
    errors = {e["method"]: e["error"] for e in ran.json["estimates"]}
    assert columns["transport_cost"].mean() == pytest.approx(errors["cot"], abs=1e-9)
    assert columns["error_probability"].mean() == pytest.approx(errors["cot"], abs=1e-9)
    assert [p.name for p in tmp_path.iterdir() if "part" in p.name] == []


def test_marginal_files(shiftgauge, files, tmp_path, source, target):
    q = np.array([0.1, 0.2, 0.3, 0.2, 0.2])
    np.save(tmp_path / "q.npy", q)
    (tmp_path / "q.csv").write_text(
        "class,mass\n" + "".join(f"{j},{m}\n" for j, m in reversed(list(enumerate(q))))
    )
    expected = sg.estimate(source, target, method="cot", marginal=q).error
    for name in ("q.npy", "q.csv"):
        ran = shiftgauge("estimate", *files, "-m", "cot", "--marginal", tmp_path / name, "--json")
        assert ran.json["estimates"][0]["error"] == pytest.approx(expected, abs=1e-12)
        assert ran.json["estimates"][0]["details"]["marginal"] == "given"
    ran = shiftgauge("estimate", *files, "-m", "cot", "--marginal", "shrunk", "--json")
    assert ran.json["estimates"][0]["details"]["marginal"] == "shrunk"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("class,mass\n0,.5\n1,.5\n2,.5\n3,0\n4,0\n", "the masses sum to 1.5"),
        ("class,mass\n0,.5\n1,-.5\n2,.5\n3,.5\n4,0\n", "the mass of class 1 is -0.5"),
        ("class,mass\n0,.5\n1,.5\n", "class 2 has no mass"),
        ("class,mass\n0,.5\n0,.5\n", "class '0' appears twice"),
    ],
)
def test_a_bad_marginal_names_its_file(shiftgauge, files, tmp_path, text, says):
    (tmp_path / "q.csv").write_text(text)
    ran = shiftgauge("estimate", *files, "-m", "cot", "--marginal", tmp_path / "q.csv")
    assert ran.code == 2
    assert "q.csv" in ran.err
    assert says in ran.err


def test_second_model(shiftgauge, files, tmp_path, scores):
    second = np.random.default_rng(0).integers(0, 5, 800)
    np.save(tmp_path / "labels.npy", second)
    np.savez(tmp_path / "scores.npz", probs=np.eye(5)[second])
    expected = np.mean(scores["shifted"].argmax(1) != second)
    for name in ("labels.npy", "scores.npz"):
        ran = shiftgauge("estimate", *files, "-m", "gde", "--second", tmp_path / name, "--json")
        assert ran.json["estimates"][0]["error"] == pytest.approx(expected)
    ran = shiftgauge("estimate", *files, "-m", "gde")
    assert (ran.code, "--second" in ran.err) == (2, True)


def test_second_model_in_a_table_with_other_column_order(shiftgauge, tmp_path, scores):
    source = write_csv(tmp_path / "s.csv", table(scores["logits"], "logit_", scores["labels"]))
    target = write_csv(tmp_path / "t.csv", table(scores["shifted"], "logit_"))
    turned = table(scores["shifted"], "logit_").select([f"logit_{n}" for n in reversed(NAMES)])
    ran = shiftgauge(
        "estimate", source, target, "-m", "gde", "--second", write_csv(tmp_path / "u.csv", turned), "--json"
    )
    assert ran.json["estimates"][0]["error"] == 0.0


@pytest.mark.parametrize(
    ("names", "labels"), [("false true", "true false"), ("01 02", "02 01"), ("1.0 NA", "NA 1.0")]
)
def test_csv_labels_are_taken_to_the_letter(shiftgauge, tmp_path, names, labels):
    one, two = names.split()
    rows = "".join(f"0.3,0.7,{label}\n" for label in labels.split())
    (tmp_path / "s.csv").write_text(f"prob_{one},prob_{two},label\n{rows}")
    ran = shiftgauge("estimate", tmp_path / "s.csv", tmp_path / "s.csv", "-m", "ac", "--check", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["source"]["classes"] == [one, two]
    assert ran.json["target"]["true_error"] == 0.5


def test_parquet_truth_values_and_decimals_as_labels(shiftgauge, tmp_path):
    for names, labels in ((("false", "true"), [True, False]), (("0", "1"), [1.0, 0.0])):
        data = pa.table({f"prob_{names[0]}": [0.3, 0.2], f"prob_{names[1]}": [0.7, 0.8], "label": labels})
        parquet.write_table(data, tmp_path / "s.parquet")
        ran = shiftgauge("estimate", tmp_path / "s.parquet", tmp_path / "s.parquet", "-m", "ac", "--json")
        assert ran.code == 0, ran.err
        assert ran.json["source"]["error"] == 0.5


def test_arrow_streams_are_read(shiftgauge, tmp_path, scores, files):
    expected = shiftgauge("estimate", *files, "-m", "ac", "--json").json["estimates"][0]["error"]
    data = table(scores["logits"], "logit_", scores["labels"])
    with pa.ipc.new_stream(tmp_path / "s.arrow", data.schema) as stream:
        stream.write_table(data)
    ran = shiftgauge("estimate", tmp_path / "s.arrow", files[1], "-m", "ac", "--json")
    assert ran.json["estimates"][0]["error"] == pytest.approx(expected, abs=1e-12)


def test_rows_never_overwrite_an_input(shiftgauge, files):
    before = files[1].read_bytes()
    ran = shiftgauge("estimate", *files, "--save-rows", files[1])
    assert (ran.code, "would be lost" in ran.err) == (2, True)
    assert files[1].read_bytes() == before


@pytest.mark.parametrize("words", [("-m", "scot", "-m", "ac"), ("-m", "all")])
def test_estimate_takes_one_method(shiftgauge, files, words):
    ran = shiftgauge("estimate", *files, *words)
    assert (ran.code, ran.out) == (2, "")
    assert "estimate takes one method; shiftgauge compare takes several" in ran.err


def test_compare(shiftgauge, files, source, target):
    """Every method by default, and the same numbers as the library; --method chooses and orders them."""
    document = shiftgauge("compare", *files, "--json").json
    answer = sg.compare(source, target)
    assert [e["method"] for e in document["estimates"]] == [e.method for e in answer]
    assert [e["error"] for e in document["estimates"]] == pytest.approx(
        [e.error for e in answer], nan_ok=True
    )
    assert document["provenance"]["command"].startswith("shiftgauge compare ")
    some = shiftgauge("compare", *files, "-m", "scot", "-m", "ac", "--json").json["estimates"]
    assert [e["method"] for e in some] == ["scot", "ac"]


def test_every_json_fits_the_schema(shiftgauge, source, target):
    schema = json.loads(resources.files("shiftgauge").joinpath("data/schema.json").read_text())
    jsonschema.validate(json.loads(sg.estimate(source, target).to_json()), schema)
    jsonschema.validate(shiftgauge("demo", "--json").json, schema)


@pytest.mark.parametrize(
    "words",
    [
        ("doctor",),
        ("metrics", "--shares", "mlls"),
        ("slices", "--by", "site", "--replicates", "20"),
        ("timeline", "--time", "day", "--every", "week"),
        ("drivers", "--by", "site"),
        ("label-plan", "-n", "10"),
        ("estimate", "--labels", "picks.csv"),
        ("report", "--replicates", "20"),
        ("backtest", "--method", "ac"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_every_command_fits_the_schema(shiftgauge, tmp_path, scores, words, monkeypatch):
    """And each fits its own part of it, and no other."""
    monkeypatch.chdir(tmp_path)
    sites = np.arange(len(scores["logits"])) % 2
    np.savez("s.npz", logits=scores["logits"], labels=scores["labels"], site=sites)
    places = np.arange(len(scores["shifted"]))
    days = np.datetime64("2026-03-02") + places // 20
    np.savez("t.npz", logits=scores["shifted"], site=places % 3, day=days)
    command, *rest = words
    lines = [f"{row},{label}" for row, label in enumerate(scores["truth"][:20])]
    (tmp_path / "picks.csv").write_text("\n".join(["row,label", *lines]) + "\n")
    inputs = ["s.npz"] if command == "backtest" else ["s.npz", "t.npz"]
    ran = shiftgauge(command, *inputs, *rest, "--json")
    assert ran.code in (0, 1), ran.err
    schema = json.loads(resources.files("shiftgauge").joinpath("data/schema.json").read_text())
    jsonschema.validate(ran.json, schema)
    part = {"label-plan": "plan", "estimate": "comparison"}.get(command, command)
    jsonschema.validate(ran.json, {"$ref": f"#/$defs/{part}", "$defs": schema["$defs"]})


def test_verbose_shows_choice_reason_and_range(shiftgauge, files):
    ran = shiftgauge("estimate", *files, "-m", "auto", "--replicates", "20", "--verbose")
    assert "\nchose " in ran.out
    assert "90% range: measured: sampling error, label noise of these rows" in ran.out
    assert "90% interval by the bootstrap, sampling error only: [" in ran.out
    shown = shiftgauge("compare", *files, "-m", "scot", "--replicates", "20").out
    assert "the 90% interval of the bootstrap, sampling error only" in " ".join(shown.split())


def test_an_idle_marginal_is_refused(shiftgauge, files):
    ran = shiftgauge("estimate", *files, "-m", "ac", "--marginal", "mlls")
    assert (ran.code, "ac does not transport" in ran.err) == (2, True)


def test_groups_widen_the_interval_of_the_command(shiftgauge, tmp_path, scores):
    import pyarrow as pa

    source = write_csv(tmp_path / "s.csv", table(scores["logits"], "logit_", scores["labels"]))
    copies = table(np.repeat(scores["shifted"][:60], 10, axis=0), "logit_")
    target = write_csv(
        tmp_path / "t.csv", copies.append_column("who", pa.array(np.repeat(np.arange(60), 10)))
    )
    widths = []
    for more in ([], ["--groups", "who"]):
        ran = shiftgauge("estimate", source, target, "-m", "ac", "--replicates", "60", "--json", *more)
        found = ran.json["estimates"][0]["interval"]
        widths.append(found["high"] - found["low"])
    assert widths[1] > 1.5 * widths[0]
    ran = shiftgauge("compare", source, target, "--groups", "who")
    assert (ran.code, "--groups are for the intervals" in ran.err) == (2, True)


def test_label_shift_is_held_against_a_method_that_takes_the_sources_shares(shiftgauge, tmp_path):
    rng = np.random.default_rng(0)
    y, y_t = rng.choice(3, 2000, p=[0.3, 0.3, 0.4]), rng.choice(3, 2000, p=[0.8, 0.1, 0.1])
    for name, labels in (("s", y), ("t", y_t)):
        z = 1.5 * rng.normal(size=(2000, 3))
        z[np.arange(2000), labels] += 3.0
        np.savez(tmp_path / f"{name}.npz", logits=z, **({"labels": labels} if name == "s" else {}))
    ran = shiftgauge("compare", tmp_path / "s.npz", tmp_path / "t.npz", "-m", "cott", "-m", "label-shift")
    assert "COTT: only class proportions seem to have changed" in ran.out
    assert "Label shift:" not in ran.out
