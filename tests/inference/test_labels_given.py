"""Labels in every form, by row and by id, in memory and in passes; in every function; and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import shiftgauge as sg
from shiftgauge.rows import Rows

NAMES = ("ant", "bee", "cat")
N = 400


def drawn(seed, n, k=3):
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=(n, k))
    return z, (z + rng.gumbel(size=z.shape)).argmax(1)


@pytest.fixture(scope="module")
def source():
    z, y = drawn(0, 400)
    return sg.Source(logits=z, labels=np.array(NAMES)[y], classes=NAMES)


@pytest.fixture(scope="module")
def target():
    return sg.Target(logits=drawn(1, N)[0], classes=NAMES)


@pytest.fixture(scope="module")
def truth():
    return np.array(NAMES)[drawn(1, N)[1]]


@pytest.fixture(scope="module")
def rows():
    return np.sort(np.random.default_rng(2).choice(N, 40, replace=False))


@pytest.fixture(scope="module")
def answer(source, target, truth, rows):
    """What every form of the same labels must give."""
    found = sg.estimate(source, target, labels={int(row): str(truth[row]) for row in rows})
    assert found.labels.n == 40
    assert found.error != sg.estimate(source, target).error
    return found


def column(truth, rows, missing, dtype=object):
    out = np.full(N, missing, dtype=dtype)
    out[rows] = truth[rows]
    return out


FORMS = {
    "None": lambda truth, rows: column(truth, rows, None).tolist(),
    "NaN": lambda truth, rows: column(truth, rows, np.nan),
    "pandas NA": lambda truth, rows: pd.Series(column(truth, rows, pd.NA), dtype="string"),
    "pandas objects": lambda truth, rows: pd.Series(column(truth, rows, None)),
    "pandas categories": lambda truth, rows: pd.Series(column(truth, rows, None), dtype="category"),
    "polars": lambda truth, rows: pl.Series(column(truth, rows, None).tolist()),
    "masked": lambda truth, rows: np.ma.masked_array(truth, ~np.isin(np.arange(N), rows)),
    "numpy row numbers": lambda truth, rows: {row: truth[row] for row in rows},
    "whole floats as row numbers": lambda truth, rows: {float(row): str(truth[row]) for row in rows},
    "a mapping with missing labels": lambda truth, rows: {
        row: (truth[row] if row in rows else None) for row in range(N)
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_answer(source, target, truth, rows, answer, form):
    given = FORMS[form](truth, rows)
    assert sg.estimate(source, target, labels=given).to_dict() == answer.to_dict()
    own = sg.Target(logits=target.scores, classes=NAMES, labels=given)
    assert sg.estimate(source, own).to_dict() == answer.to_dict()


@pytest.mark.parametrize("missing", ["nan", "pandas"])
def test_class_numbers_beside_missing_ones_are_floats(truth, rows, missing):
    z, y = drawn(0, 400)
    z_t, y_t = drawn(1, N)
    source, target = sg.Source(logits=z, labels=y), sg.Target(logits=z_t)
    given = column(y_t, rows, np.nan, float)
    if missing == "pandas":
        given = pd.Series(given).astype("Int64")
    found = sg.estimate(source, target, labels=given)
    assert found.error == sg.estimate(source, target, labels={int(i): int(y_t[i]) for i in rows}).error


@pytest.mark.parametrize("kind", [str, int])
def test_ids_are_keys_where_rows_have_them(source, target, truth, rows, answer, kind):
    """Numbers that are ids are not row numbers."""
    ids = [kind(9000 - i) for i in range(N)]
    named = sg.Target(logits=target.scores, classes=NAMES, ids=ids)
    by_id = {ids[row]: truth[row] for row in rows}
    for given in (by_id, dict(reversed(by_id.items())), column(truth, rows, None)):
        assert sg.estimate(source, named, labels=given).to_dict() == answer.to_dict()
    with pytest.raises(sg.InputError, match=r"no row has the id '?3'?"):
        sg.estimate(source, named, labels={kind(3): "ant"})


@pytest.mark.parametrize("ids", [None, "text", "numbers"])
@pytest.mark.parametrize("block_rows", [7, 64, None])
def test_in_blocks_and_passes_as_in_memory(source, target, truth, rows, answer, ids, block_rows):
    keys = {None: None, "text": [f"r{i}" for i in range(N)], "numbers": list(range(5000, 5000 + N))}[ids]
    sample = sg.Target(logits=target.scores, classes=NAMES, ids=keys)
    given = {int(row) if keys is None else keys[row]: truth[row] for row in rows}
    for read in (Rows.of(sample, block_rows=block_rows), Rows.of(sample, block_rows=block_rows).in_passes()):
        found = sg.estimate(source, read, labels=given)
        assert found.error == pytest.approx(answer.error, abs=1e-7)
        assert (found.range.low, found.range.high) == pytest.approx(
            (answer.range.low, answer.range.high), abs=1e-7
        )
        assert found.labels.errors == answer.labels.errors
        # the same rows without labels are not answered from memory
        assert sg.estimate(source, read).labels is None
        unknown = {"no such": "ant"} if ids == "text" else {N + 6000: "ant"}
        with pytest.raises(sg.InputError, match=r"labels: .*(no row has the id|is not a row of the target)"):
            sg.estimate(source, read, labels=unknown)


@pytest.mark.parametrize("order", [(2, 0, 1), (1, 2, 0)])
def test_the_order_of_the_targets_classes_is_irrelevant(source, target, truth, rows, answer, order):
    names = [NAMES[j] for j in order]
    scores = target.scores[:, order]
    labels = {int(row): truth[row] for row in rows}
    for other in (
        sg.Target(logits=scores, classes=names, labels=labels),
        sg.Target(logits=scores, classes=names),
        Rows.of(sg.Target(logits=scores, classes=names)),
        Rows.of(sg.Target(logits=scores, classes=names)).in_passes(),
    ):
        own = isinstance(other, sg.Target) and other.labelled is not None
        found = sg.estimate(source, other, labels=None if own else labels)
        assert found.error == pytest.approx(answer.error, abs=1e-7)
        assert found.labels.errors == answer.labels.errors
    numbers = {int(row): names.index(truth[row]) for row in rows}  # of the target's own columns
    again = sg.estimate(source, sg.Target(logits=scores, classes=names), labels=numbers)
    assert again.labels.errors == answer.labels.errors


def test_some_rows_of_a_labelled_target_keep_their_labels(source, target, truth, rows):
    own = sg.Target(logits=target.scores, classes=NAMES, labels={int(row): truth[row] for row in rows})
    first = own.take(np.arange(200))
    expected = {int(row): truth[row] for row in rows if row < 200}
    plain = sg.estimate(source, target.take(np.arange(200)), labels=expected)
    assert sg.estimate(source, first).to_dict() == plain.to_dict()
    turned = own.take(np.arange(N)[::-1])
    assert sg.estimate(source, turned).error == pytest.approx(sg.estimate(source, own).error, abs=1e-9)
    unlabelled = np.setdiff1d(np.arange(N), rows)
    assert own.take(unlabelled).labelled is None


# -- every function -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def given(truth, rows):
    return {int(row): str(truth[row]) for row in rows}


def test_every_function_follows_the_labels(source, target, given, answer):
    assert sg.compare(source, target, labels=given)["auto"].to_dict() == answer.to_dict()
    assert sg.ceiling(source, target, labels=given).value == answer.range.high
    fits = sg.suitable(source, target, labels=given)
    assert (fits.low, fits.high) == (answer.range.low, answer.range.high)
    pair = sg.Pair(source, target, labels=given)
    assert sg.metrics(pair).error == pytest.approx(answer.error, abs=1e-6)
    assert sg.slices(pair, by=["a", "b"] * (N // 2), replicates=20).error == pytest.approx(
        answer.error, abs=1e-6
    )
    assert sg.doctor(source, target, labels=given)["range"].value["error"] == answer.error
    for level in (0.5, 0.95):
        high = sg.estimate(source, target, labels=given, level=level).range.high
        assert sg.ceiling(source, target, labels=given, level=level).value == high


def test_compare_shows_the_other_methods_from_scores(source, target, given, truth, answer):
    plain = sg.compare(source, target)
    found = sg.compare(source, target, labels=given, truth=truth)
    for one in found:
        if one.method != "auto":
            assert one.to_dict() == plain[one.method].to_dict()
    # the truth compares and changes nothing
    assert found["auto"].error == answer.error
    assert found.true_error == np.mean(np.array(NAMES)[target.predictions] != truth)
    assert plain.true_error is None


def test_the_doctor_says_what_labels_contributed(source, target, given, answer):
    check = sg.doctor(source, target, labels=given)["labels"]
    assert check.status == "ok"
    assert check.meaning == answer.labels.sentence()
    assert f"40 labels, {answer.labels.errors} of them errors: labels alone" in check.meaning
    assert "scores alone" in check.meaning
    wrong = {row: NAMES[(int(target.predictions[row]) + 1) % 3] for row in range(0, N, 8)}
    against = sg.doctor(source, target, labels=wrong)["labels"]
    assert against.status == "caution"
    assert against.meaning.startswith("labels and scores contradict each other")
    with pytest.raises(KeyError):
        sg.doctor(source, target)["labels"]


def test_the_report_says_what_labels_contributed(source, target, given, truth, answer):
    made = sg.report(source, target, labels=given, truth=truth, replicates=20)
    assert made.summary["answer"]["labels"] == answer.labels.to_dict()
    assert answer.labels.sentence() in made.summary["answer"]["sentence"]
    page = made.to_html()
    assert "labels alone (40, of them" in page
    assert "scores alone" in page
    assert "true error, by the labels given to check" in page
    assert "interval" not in made.summary["answer"]  # the range covers it
    assert "labels alone" in made.render("md")
    assert json.loads(made.render("json"))["answer"]["labels"]["n"] == 40
    plain = sg.report(source, target, replicates=0)
    assert plain.summary["answer"]["labels"] is None
    assert "labels alone" not in plain.render("md")


def test_the_bootstrap_does_not_resample_labels(source, target, given, answer):
    found = sg.estimate(source, target, labels=given, interval=True, replicates=20)
    assert found.interval is None
    assert found.range == answer.range
    assert any("no interval: the bootstrap resamples scores" in text for text in found.warnings)
    mixed = sg.compare(source, target, ["ac", "auto"], labels=given, interval=True, replicates=20)
    assert mixed["ac"].interval is not None
    assert mixed["auto"].interval is None


def test_a_pair_keeps_its_labels_and_gives_them_to_nobody_else(source, target, given, answer):
    pair = sg.Pair(source, target, labels=given)
    assert sg.estimate(pair).to_dict() == answer.to_dict()
    assert pair.with_target(target).estimate("auto").labels is None
    own = sg.Target(logits=target.scores, classes=NAMES, labels=given)
    assert pair.with_target(own).estimate("auto").error == answer.error


# -- what is refused ----------------------------------------------------------------------------------------

REFUSED = {
    "a label that is no class": ({"labels": {3: "dog"}}, "labels: row 3 is 'dog', which is not a class"),
    "a number that is no class": ({"labels": {3: 7}}, "labels: row 3 is 7"),
    "a row that does not exist": (
        {"labels": {N: "ant"}},
        r"labels: 400 is not a row of the target; wanted .* 0 to 399",
    ),
    "a row below 0": ({"labels": {-1: "ant"}}, "labels: -1 is not a row"),
    "half a row": ({"labels": {2.5: "ant"}}, r"labels: 2\.5 is not a row"),
    "an id where rows have none": ({"labels": {"r1": "ant"}}, r"labels: 'r1' is not a row .*have no ids"),
    "too few entries": ({"labels": ["ant"] * 3}, "labels: 3 entries for 400 target rows; wanted one per row"),
    "an unknown word": ({"labels_chosen": "randm"}, "labels_chosen 'randm' is not known.*'random'"),
    "an unknown thing": ({"labels": {1: "ant"}, "labels_chosen": 7}, "labels_chosen 7 is not known"),
    "a named method": (
        {"labels": {1: "ant"}, "method": "scot"},
        "labels combine with auto alone, and here scot answers from scores",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_labels_get_one_line(source, target, case):
    options, line = REFUSED[case]
    with pytest.raises(sg.InputError, match=line) as caught:
        sg.estimate(source, target, **options)
    assert "\n" not in str(caught.value)
    assert "np." not in str(caught.value)


def test_one_row_with_two_labels(source, target):
    named = sg.Target(logits=target.scores, classes=NAMES, ids=[str(i) for i in range(N)])
    for read in (named, Rows.of(named).in_passes()):
        with pytest.raises(sg.InputError, match="labels: row '7' has two labels; wanted one label per row"):
            sg.estimate(source, read, labels={"7": "ant", 7: "bee", "8": "ant"})


def test_ids_that_several_rows_have(source, target):
    double = sg.Target(logits=target.scores, classes=NAMES, ids=[f"r{i // 2}" for i in range(N)])
    for read in (double, Rows.of(double).in_passes()):
        with pytest.raises(sg.InputError, match="labels: 2 rows have the id 'r3'"):
            sg.estimate(source, read, labels={"r3": "ant"})


def test_labels_come_once_and_with_the_pair(source, target, given):
    own = sg.Target(logits=target.scores, classes=NAMES, labels=given)
    with pytest.raises(sg.InputError, match="labels arrived twice, with the target and as labels="):
        sg.estimate(source, own, labels=given)
    pair = sg.Pair(source, target)
    for call in (sg.estimate, sg.compare, sg.ceiling, sg.suitable, sg.doctor):
        with pytest.raises(
            sg.InputError, match="labels arrived with a pair; wanted them where the pair is made"
        ):
            call(pair, labels=given)
    with pytest.raises(sg.InputError, match="labels arrived with a pair"):
        sg.estimate(pair, labels_chosen="unknown")
    with pytest.raises(sg.InputError, match="labels combine with auto alone, and here cott answers"):
        sg.report(source, target, "cott", labels=given)


def test_truth_is_for_all_rows(source, target, truth):
    with pytest.raises(sg.InputError, match="truth: 3 labels for 400 rows"):
        sg.compare(source, target, truth=["ant"] * 3)
    with pytest.raises(sg.InputError, match="truth: row 0 is missing"):
        sg.compare(source, target, truth=[None, *truth[1:]])


def test_truth_is_read_as_the_target_names_its_columns(source, target, truth):
    """By name, if only the source has names; by number, in the target's own order, also for a pair."""
    error = float(np.mean(np.array(NAMES)[target.predictions] != truth))
    nameless = sg.Target(target.scores)
    assert sg.compare(source, nameless, ["ac"], truth=truth).true_error == pytest.approx(error)
    report = sg.report(source, nameless, "ac", replicates=0, truth=truth)
    assert report.summary["comparison"]["target"]["true_error"] == pytest.approx(error)
    assert sg.timeline(source, nameless, every=N, truth=truth).periods[0].observed == pytest.approx(error)
    order = [2, 0, 1]
    turned = sg.Target(target.scores[:, order], classes=[NAMES[j] for j in order])
    numbers = [turned.classes.index(name) for name in truth]
    assert sg.compare(source, turned, ["ac"], truth=numbers).true_error == pytest.approx(error)
    pair = sg.Pair(source, turned)
    assert sg.compare(pair, methods=["ac"], truth=numbers).true_error == pytest.approx(error)


def test_a_label_plan_starts_from_the_scores(source, target, given):
    """Its range is that of the scores, and so is its answer, whatever labels there are already."""
    labelled = sg.Pair(source, target, labels=given)
    found, plain = sg.label_plan(labelled, n=5), sg.label_plan(source, target, n=5)
    assert (found.error, found.range, found.rows.tolist()) == (plain.error, plain.range, plain.rows.tolist())
    assert any("labels of the target are not used" in text for text in found.warnings)
