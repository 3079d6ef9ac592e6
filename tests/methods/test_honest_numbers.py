"""An answer does not ignore deployed decisions, take few rows for certainty, or name two numbers for one range."""

import json
import re

import numpy as np
import pytest
from scipy.stats import binomtest
from typer.testing import CliRunner

import shiftgauge as sg
from shiftgauge.cli.app import app


def drawn(n, k=4, seed=0, noise=1.5):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    z = noise * rng.normal(size=(n, k))
    z[np.arange(n), y] += 2.0
    return z, y


@pytest.fixture(scope="module")
def decided():
    """No shift; a rule decides half the rows as class 0."""
    z, y = drawn(6000)
    rule = np.random.default_rng(1).random(6000) < 0.5
    chosen = np.where(rule, 0, z.argmax(1))
    source = sg.Source(logits=z[:3000], labels=y[:3000], predictions=chosen[:3000])
    return source, sg.Target(logits=z[3000:], predictions=chosen[3000:]), (chosen[3000:] != y[3000:]).mean()


@pytest.fixture(scope="module", params=[10, 20, 100])
def flawless(request):
    z, y = drawn(2 * request.param, k=3, noise=0.2)
    n = request.param
    assert (z.argmax(1) == y).all()
    return sg.Source(logits=9 * z[:n], labels=y[:n]), sg.Target(logits=9 * z[n:]), n


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("range")
    z, y = drawn(400)
    new, _ = drawn(300, seed=5, noise=2.0)
    np.savez(folder / "source.npz", logits=z, labels=y)
    np.savez(folder / "target.npz", logits=new)
    return [str(folder / "source.npz"), str(folder / "target.npz")]


class TestDecisionsThatAreNotTheLargestScore:
    def test_compare_leaves_transport_out_and_says_so(self, decided):
        source, target, truth = decided
        found = sg.compare(source, target)
        names = [one.method for one in found]
        assert not {"cot", "cott"} & set(names)
        assert any("cot and cott left out" in text for text in found.warnings)
        for one in found:
            assert one.error is None or abs(one.error - truth) < 0.03, one

    def test_compare_refuses_a_method_that_was_named(self, decided):
        with pytest.raises(sg.InputError, match="cott: the deployed decisions differ"):
            sg.compare(*decided[:2], ["doc", "cott"])

    def test_auto_goes_without_them(self, decided):
        source, target, truth = decided
        found = sg.estimate(source, target, interval=True, replicates=20)
        assert not {"cot:shrunk", "cott:mlls"} & set(found.details["answers"])
        assert found.range.low <= truth <= found.range.high
        assert found.range.low > 0.5 * truth

    def test_auto_near_the_source_is_the_mean_of_doc_and_atc_ne(self, decided):
        found = sg.estimate(*decided[:2])
        answers, weights = (
            found.details["answers"],
            {p["method"]: p["weight"] for p in found.details["parts"]},
        )
        assert weights["doc"] == pytest.approx(weights["atc-ne"])
        near = (answers["doc"] + answers["atc-ne"]) / 2
        trust = 1.25 if near >= answers["unchanged"] else 0.5
        assert found.error == pytest.approx(answers["unchanged"] + trust * (near - answers["unchanged"]))

    def test_auto_far_from_it_is_scot_or_the_median_of_three(self):
        z, y = drawn(4000, k=5, seed=3)
        new, _ = drawn(4000, k=5, seed=4, noise=6.0)
        chosen = z.argmax(1)
        chosen[::40] = 0
        source = sg.Source(logits=z, labels=y, predictions=chosen)
        found = sg.estimate(source, sg.Target(logits=new), proportions="same")
        assert [p["method"] for p in found.details["parts"]] == ["scot"]
        changed = sg.estimate(source, sg.Target(logits=new), proportions="changed").details
        three = sorted(("atc-ne", "label-shift", "doc"), key=lambda name: changed["answers"][name])
        weights = {p["method"]: p["weight"] for p in changed["parts"]}
        assert weights[three[1]] >= 0.5
        assert "scot" not in weights

    def test_every_other_function_has_an_answer(self, decided, tmp_path):
        source, target, _ = decided
        assert sg.doctor(source, target)["ties at the threshold"].value is None
        assert sg.metrics(source, target).cott_error is None
        assert "costs" in sg.report(source, target, replicates=0).to_dict()
        assert sg.backtest(source, repeats=1).to_dict()
        sg.suitable(source, target)
        sg.ceiling(source, target)

    def test_a_saved_auto_remembers_them(self, decided, tmp_path):
        source, target, _ = decided
        sg.methods.Auto().fit(source).save(tmp_path / "auto.json")
        assert sg.load(tmp_path / "auto.json").estimate(target).error == pytest.approx(
            sg.estimate(source, target).error, abs=1e-12
        )

    def test_the_command_leaves_them_out_of_all(self, decided, tmp_path):
        for name, sample in zip(("source", "target"), decided[:2], strict=True):
            arrays = {"logits": sample.scores, "predictions": sample.predictions}
            labels = {"labels": sample.labels} if name == "source" else {}
            np.savez(tmp_path / f"{name}.npz", **arrays, **labels)
        files = [str(tmp_path / "source.npz"), str(tmp_path / "target.npz")]
        every = CliRunner().invoke(app, ["compare", *files, "--json"])
        assert every.exit_code == 0
        assert not {"cot", "cott"} & {one["method"] for one in json.loads(every.stdout)["estimates"]}
        rows = tmp_path / "rows.csv"
        assert CliRunner().invoke(app, ["estimate", *files, "--save-rows", str(rows)]).exit_code == 0
        assert "transport_cost" not in rows.read_text().splitlines()[0]

    def test_decisions_that_are_the_largest_score_change_nothing(self):
        z, y = drawn(500)
        z = np.round(z)  # ties: any class with the largest score is the largest score
        last = z.shape[1] - 1 - z[:, ::-1].argmax(1)
        plain = sg.estimate(sg.Source(logits=z, labels=y), sg.Target(logits=z), "cot")
        given = sg.estimate(sg.Source(logits=z, labels=y, predictions=last), sg.Target(logits=z), "cot")
        assert given.error == pytest.approx(plain.error)


class TestNoErrorsAmongFewRows:
    def test_the_range_ends_no_lower_than_wilsons(self, flawless):
        source, target, n = flawless
        found = sg.estimate(source, target)
        wilson = binomtest(0, n).proportion_ci(0.9, method="wilson")
        assert found.range.low == 0.0
        assert found.range.high >= wilson.high
        assert found.sampling.high >= wilson.high

    def test_nor_do_named_methods_and_slices(self, flawless):
        source, target, n = flawless
        wilson = binomtest(0, n).proportion_ci(0.9, method="wilson")
        for method in ("ac", "atc-ne", "cott"):
            assert sg.interval(source, target, method, replicates=20).interval.high >= wilson.high
        for part in sg.slices(source, target, ["a", "b"] * (n // 2), replicates=20).slices:
            assert part.high >= wilson.high

    def test_no_decision_rests_on_them(self, flawless):
        source, target, n = flawless
        if n <= 20:
            assert sg.suitable(source, target).decision == "cannot say"
            assert sg.estimate(source, target).details["grade"] != "ok"
            assert sg.ceiling(source, target).value > 0.15


class TestOneRange:
    @pytest.mark.parametrize(
        "more", [["--level", "0.9"], ["--level", "0.9", "--replicates", "30"], ["--level", "0.8"]]
    )
    def test_what_is_printed_is_what_the_gate_tests(self, files, more):
        source, target, level = sg.read_source(files[0]), sg.read_target(files[1]), float(more[1])
        high = sg.estimate(source, target, level=level).range.high
        assert sg.ceiling(source, target, level=level).value == high
        shown = CliRunner().invoke(app, ["estimate", *files, *more]).output
        printed = re.search(r"([\d]+)% range [\d.]+% to ([\d.]+)%", shown)
        assert float(printed[1]) == pytest.approx(100 * level)
        assert float(printed[2]) == pytest.approx(100 * high, abs=0.51)
        for limit, code in ((high - 1e-4, 1), (high + 1e-4, 0)):
            run = CliRunner().invoke(
                app, ["estimate", *files, *more, "-m", "auto", "--fail-above", f"{limit}", "--on", "ceiling"]
            )
            assert run.exit_code == code

    def test_the_command_does_not_resample_unless_asked(self, files):
        plain = json.loads(CliRunner().invoke(app, ["estimate", *files, "-m", "ac", "--json"]).stdout)
        assert "interval" not in plain["estimates"][0]
        asked = json.loads(
            CliRunner()
            .invoke(app, ["estimate", *files, "-m", "ac", "--replicates", "20", "--level", "0.8", "--json"])
            .stdout
        )
        assert asked["estimates"][0]["interval"]["level"] == 0.8


class TestWhatAutoSays:
    def test_proportions_that_changed_are_obeyed_however_few_rows_there_are(self):
        z, y = drawn(24, k=6, seed=2)
        new, _ = drawn(8, k=6, seed=3, noise=4.0)
        found = sg.estimate(sg.Source(logits=z, labels=y), sg.Target(logits=new), proportions="changed")
        assert found.details["shift"] == "unknown"
        weights = {p["method"]: p["weight"] for p in found.details["parts"]}
        assert weights["label-shift"] == 0.5  # the other half follows the change in confidence
        assert "scot" not in weights

    def test_the_seed_reaches_its_test(self):
        z, y = drawn(600, seed=1)
        new, _ = drawn(100, seed=7, noise=1.8)
        source, target = sg.Source(logits=z, labels=y), sg.Target(logits=new)
        seen = set()
        for seed in range(4):
            test = sg.shift_test(source, target, seed=seed).test
            found = sg.estimate(source, target, seed=seed)
            assert found.details["p_value"] == test.p_value
            assert found.details["shift"] == test.kind()
            seen.add(test.p_value)
        assert len(seen) > 1  # a sparse table: the bootstrap's p-value depends on the seed

    def test_warnings_of_its_methods_reach_it(self):
        rng = np.random.default_rng(0)
        p = np.eye(3)[rng.integers(3, size=300)]
        y = np.where(rng.random(300) < 0.7, p.argmax(1), rng.integers(3, size=300))
        target = sg.Target(probs=np.eye(3)[rng.choice(3, size=300, p=[0.8, 0.1, 0.1])])
        source = sg.Source(probs=p, labels=y)
        told = sg.estimate(source, target).warnings
        for method in ("scot", "cott"):
            options = {"scot": "shrunk", "cott": "mlls"}
            own = sg.methods.METHODS[method](marginal=options[method]).fit(source).estimate(target).warnings
            for text in own:
                assert any(text in one for one in told), (method, text)
        assert any(text.startswith("COTT: ") for text in told)

    @pytest.mark.parametrize("seed", range(6))
    def test_its_sentence_does_not_contradict_the_choice(self, seed):
        """Other proportions of the same rows: whatever is chosen, the reason says what the answer rests on."""
        z, y = drawn(3000, seed=seed)
        new, truth = drawn(6000, seed=seed + 50)
        keep = np.random.default_rng(seed).random(6000) < np.array([0.9, 0.6, 0.4, 0.2 + seed / 10])[truth]
        details = sg.estimate(sg.Source(logits=z, labels=y), sg.Target(logits=new[keep])).details
        assert "refuted" not in details["reason"]
        methods = {p["method"] for p in details["parts"]}
        if details["excess_mass"] <= 0.03 and details["shift"] != "label":
            assert "follows the change in confidence" in details["reason"]
        elif details["shift"] == "label":
            assert "label-shift" in methods
            assert "half of the answer rests on proportions estimated from the scores" in details["reason"]
