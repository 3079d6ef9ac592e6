"""The answer of rows read in passes is the one in memory, however they are cut."""

import numpy as np
import pytest
from engines import samples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shiftgauge as sg
from shiftgauge.inference.row_tables import row_reader, row_table
from shiftgauge.rows import Rows

METHODS = list(sg.methods.METHODS)
N, K = 1200, 4
CLASSES = ("a", "b", "c", "d")


def world(seed=0, kind="logits", zeros=False, rule=False):
    """A source and the columns of a target; with a rule, some decisions are not the largest score."""
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=(N + 500, K))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    z[500:, 1] += 0.7
    if kind == "probs":
        z = np.exp(z - z.max(axis=1, keepdims=True))
        z[zeros and z < 1e-3] = 0.0
        z /= z.sum(axis=1, keepdims=True)
    said = z.argmax(axis=1)
    if rule:
        said[::11] = rng.integers(K, size=len(said[::11]))
    target = {
        "scores": z[500:],
        "decisions": said[500:],
        "weights": rng.random(N) * (rng.random(N) > 0.1),
        "second": rng.integers(K, size=N),
        "site": np.array(["north", "south", "west"])[rng.integers(3, size=N)],
    }
    source = sg.Source(
        **{kind: z[:500]}, labels=np.array(CLASSES)[y[:500]], classes=CLASSES, predictions=said[:500]
    )
    return source, target


def in_memory(target, kind="logits"):
    held = {name: target[name] for name in ("weights", "second")}
    return sg.Target(**{kind: target["scores"]}, classes=CLASSES, predictions=target["decisions"], **held)


def scanned(target, cuts, size=97, kind="logits", order=range(K)):
    """The same rows in parts cut there, with the columns in another order."""
    order = list(order)
    place = np.argsort(order)
    turned = {
        **target,
        "scores": np.ascontiguousarray(target["scores"][:, order]),
        "decisions": place[target["decisions"]],
        "second": place[target["second"]],
    }
    parts = samples.parts_of(turned, cuts, size)
    classes = tuple(CLASSES[j] for j in order)
    return Rows(parts, kind, K, classes, weighted=True, decisions=True, second=True, columns=("site",))


def same(a, b, tolerance=1e-9):
    """Plain values that agree to the tolerance; how often rows were read is another matter."""
    if isinstance(a, dict):
        assert a.keys() - {"passes"} == b.keys() - {"passes"}
        for name in a.keys() - {"passes", "certificate", "likelihood_gap"}:
            same(a[name], b[name], tolerance)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y, tolerance)
    elif isinstance(a, float):
        assert b == pytest.approx(a, abs=tolerance, nan_ok=True)
    else:
        assert a == b


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    cuts=st.lists(st.integers(0, N), max_size=6),
    size=st.integers(40, 1500),
    order=st.permutations(range(K)),
    rule=st.booleans(),
)
def test_however_rows_are_cut(cuts, size, order, rule):
    source, target = world(rule=rule)
    methods = [name for name in METHODS if not (rule and sg.methods.METHODS[name].needs_argmax)]
    whole = sg.compare(source, in_memory(target), methods)
    parts = sg.compare(source, scanned(target, cuts, size, order=order), methods)
    for a, b in zip(whole, parts, strict=True):
        same(a.to_dict(), b.to_dict())
        if "certificate" in b.details:
            assert b.details["certificate"]["exact"]
            assert abs(b.details["certificate"]["gap"]) <= 1e-9


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("method", ["ac", "cott", "scot", "mano", "auto"])
def test_probabilities_with_and_without_zeros(method, zeros):
    source, target = world(1, "probs", zeros)
    found = sg.estimate(source, scanned(target, [0, 300, 301], kind="probs"), method)
    same(sg.estimate(source, in_memory(target, "probs"), method).to_dict(), found.to_dict())


@pytest.mark.parametrize("calibration", ["none", "vector"])
def test_every_calibration(calibration):
    source, target = world(2)
    for method in ("scot", "label-shift"):
        a, b = (
            sg.estimate(source, t, method, calibration=calibration)
            for t in (in_memory(target), scanned(target, [200]))
        )
        assert b.error == pytest.approx(a.error, abs=1e-9)


@pytest.mark.parametrize(("rule", "method"), [(False, "cott"), (True, "doc")])
def test_every_function(rule, method):
    source, target = world(3, rule=rule)
    whole, parts = in_memory(target), scanned(target, [5, 5, 700], order=(2, 0, 3, 1))
    same(sg.doctor(source, whole).to_dict(), sg.doctor(source, parts).to_dict())
    same(sg.metrics(source, whole).to_dict(), sg.metrics(source, parts).to_dict())
    same(sg.metrics(source, whole, "scot").to_dict(), sg.metrics(source, parts, "scot").to_dict())
    same(
        sg.slices(source, whole, target["site"], replicates=20).to_dict(),
        sg.slices(source, parts, "site", replicates=20).to_dict(),
    )
    same(
        sg.interval(source, whole, method, replicates=20).to_dict(),
        sg.interval(source, parts, method, replicates=20).to_dict(),
    )
    same(sg.ceiling(source, whole).to_dict(), sg.ceiling(source, parts).to_dict())
    same(sg.suitable(source, whole).to_dict(), sg.suitable(source, parts).to_dict())
    a = sg.report(source, whole, by={"site": target["site"]}, replicates=20).summary
    b = sg.report(source, parts, by={"site": "site"}, replicates=20).summary
    for part in a.keys() - {"provenance"}:
        same(a[part], b[part])


def test_methods_of_one_comparison_share_passes():
    source, target = world(4)
    alone = {}
    for method in METHODS:
        scan = scanned(target, [400])
        sg.estimate(source, scan, method)
        alone[method] = scan.passes
    together = scanned(target, [400])
    sg.compare(source, together, METHODS)
    assert together.passes <= max(alone.values()) + 3 < sum(alone.values())
    assert alone["ac"] == alone["doc"] == alone["entropy"] == 1
    assert alone["cot"] <= 5
    assert alone["cott"] <= 5
    assert alone["scot"] <= 6
    assert alone["auto"] <= 16


def test_an_error_in_one_part_reaches_every_reader():
    source, target = world(5)
    bad = {**target, "scores": target["scores"].copy()}
    bad["scores"][700, 2] = np.nan
    with pytest.raises(sg.FileError, match=r"part 1: .*row 300, column 2 is nan"):
        sg.compare(source, scanned(bad, [400]), METHODS)


def test_arrays_with_a_value_per_row_and_plans_of_rows_in_passes():
    source, target = world(6)
    whole, parts, site = in_memory(target), scanned(target, [333]), target["site"]
    for function in (
        lambda t: sg.label_plan(source, t, n=50),
        lambda t: sg.slices(source, t, site, "doc", replicates=20),
        lambda t: sg.interval(source, t, "doc", groups=site, replicates=20),
    ):
        same(function(whole).to_dict(), function(parts).to_dict())


def test_values_of_every_row_serve_rows_that_are_read_in_passes_too():
    source, target = world(6)
    whole, parts = in_memory(target), scanned(target, [300])
    plans = [sg.label_plan(source, one, n=50) for one in (whole, parts)]
    assert plans[0].rows.tolist() == plans[1].rows.tolist()
    np.testing.assert_allclose(plans[0].error_probability, plans[1].error_probability, atol=1e-9)
    labels = dict.fromkeys(plans[0].rows.tolist(), 0)
    errors = [sg.estimate(source, one, labels=labels).error for one in (whole, parts)]
    assert errors[0] == pytest.approx(errors[1], abs=1e-12)
    cut = [sg.slices(source, one, target["site"], "doc", replicates=20).to_dict() for one in (whole, parts)]
    same(*cut)
    groups = np.arange(N) // 10
    same(*(sg.interval(source, one, "doc", groups=groups, replicates=20).to_dict() for one in (whole, parts)))
    truth = np.zeros(N, dtype=int)
    found = [sg.compare(source, one, ["ac"], labels=truth).true_error for one in (whole, parts)]
    assert found[0] == pytest.approx(found[1])


def test_a_large_target_in_memory_is_read_in_blocks(monkeypatch):
    source, target = world(7)
    whole = [sg.estimate(source, in_memory(target), m) for m in ("scot", "cott", "auto")]
    rows = row_table(sg.Pair(source, in_memory(target)), "scot")
    for name in ("subsample.WHOLE", "subsample.WIDE", "state.KEPT", "rows.BLOCK"):
        monkeypatch.setattr(f"shiftgauge.rows.{name}_ENTRIES", 400)
    monkeypatch.setattr("shiftgauge.rows.subsample.SUBSAMPLE_ENTRIES", 2000)
    pair = sg.Pair(source, in_memory(target))
    assert len(pair.target.parts) == 12
    assert pair.subsample.target.n < N
    for a in whole:
        assert pair.estimate(a.method).error == pytest.approx(
            a.error, abs=0.02 if a.method == "auto" else 1e-9
        )
    tables = [table for part in pair.target.iterate(row_reader(pair, "scot")) for table in part]
    for name, values in rows.items():
        joined = np.concatenate([table[name] for table in tables])
        counts = target["weights"] > 0.0  # a row without weight may be said to go anywhere
        if values.dtype.kind == "f":
            np.testing.assert_allclose(joined[counts], values[counts], atol=1e-9)
        else:
            assert (joined == values)[counts].all()


def test_rows_are_never_written_of_some_of_a_part():
    """A part that gives fewer rows than it has, as a cluster's does to this process, is refused and not cut short."""
    source, target = world(8)
    scan = scanned(target, [400])
    read = row_reader(sg.Pair(source, scan), "ac")
    scan.parts[1].read = lambda columns=(): iter([next(samples.PartOfArrays.read(scan.parts[1]))])
    with pytest.raises(sg.FileError, match="part 1: other than 800 rows were read"):
        list(sg.Pair(source, scan).target.iterate(read))
