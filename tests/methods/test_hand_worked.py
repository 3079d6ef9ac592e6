"""Formulas against examples small enough to work out on paper (calibration off)."""

import numpy as np
import pytest

import shiftgauge as sg

# Four source rows: confidences .95 .85 .65 .55; the last two predictions are wrong, so e = 1/2.
SOURCE = sg.Source(probs=[[0.95, 0.05], [0.15, 0.85], [0.65, 0.35], [0.45, 0.55]], labels=[0, 1, 1, 0])
# Five target rows: confidences .9 .8 .7 .6 .75, all but the fourth predicted as class 0.
TARGET = sg.Target(
    probs=[[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6], [0.75, 0.25]], second=[0, 0, 1, 1, 1]
)


def error(method, source=SOURCE, target=TARGET, **options):
    return sg.estimate(source, target, method=method, calibration="none", **options).error


def test_ac():
    assert error("ac") == pytest.approx((0.1 + 0.2 + 0.3 + 0.4 + 0.25) / 5)


def test_doc():
    assert error("doc") == pytest.approx(0.5 + 0.75 - 0.75)  # both mean confidences are .75
    less_sure = sg.Target(probs=[[0.6, 0.4], [0.5, 0.5]])
    assert error("doc", target=less_sure) == pytest.approx(0.5 + 0.75 - 0.55)


def test_doc_outside_the_unit_interval_is_clipped_with_a_warning():
    good = sg.Source(probs=[[0.6, 0.4], [0.4, 0.6]], labels=[0, 1])
    estimate = sg.estimate(good, sg.Target(probs=[[1.0, 0.0]]), method="doc", calibration="none")
    assert estimate.error == 0.0
    assert any("clipped" in w and "-0.4" in w for w in estimate.warnings)


def test_im():
    # Bins (.5,.6] wrong, (.6,.7] wrong, (.8,.9] right, (.9,1] right. The target's .6 and .7 fall into the
    # first two, .8 and .75 into (.7,.8], which is empty: the nearest non-empty bins are (.6,.7] and
    # (.8,.9], equally near, and the less confident one counts, so both are wrong; .9 is right.
    estimate = sg.estimate(SOURCE, TARGET, method="im", calibration="none")
    assert estimate.error == pytest.approx(4 / 5)
    assert estimate.details["borrowed_mass"] == pytest.approx(2 / 5)


def test_gde():
    assert error("gde") == pytest.approx(2 / 5)


def test_gde_takes_scores_too():
    target = sg.Target(probs=[[0.9, 0.1], [0.8, 0.2]], second=[[1.0, 3.0], [3.0, 1.0]])
    assert error("gde", target=target) == pytest.approx(1 / 2)


def test_atc_mc():
    # m = 2 source errors: the threshold is the second smallest maximum, .65; only .6 is at or below it.
    assert error("atc-mc") == pytest.approx(1 / 5)
    assert sg.estimate(SOURCE, TARGET, method="atc-mc", calibration="none").details[
        "threshold"
    ] == pytest.approx(0.65)


def test_atc_ne_orders_by_entropy():
    # Three classes, where entropy and maximum disagree: (.5,.5,0) has entropy .69, (.55,.225,.225) has 0.998.
    source = sg.Source(probs=[[0.5, 0.5, 0.0], [0.55, 0.225, 0.225]], labels=[0, 1])
    target = sg.Target(probs=[[0.54, 0.23, 0.23]])  # entropy 1.009
    assert error("atc-mc", source, target) == 0.0  # more certain than .5, the least certain source row
    assert error("atc-ne", source, target) == 1.0  # of higher entropy than .998, the highest of the source


def test_cot_on_two_rows():
    # q = (1/2, 1/2): of the two rows predicted 0 the second moves, at cost .6.
    source = sg.Source(probs=[[0.9, 0.1], [0.2, 0.8]], labels=[0, 1])
    target = sg.Target(probs=[[0.9, 0.1], [0.6, 0.4]])
    assert error("cot", source, target) == pytest.approx((0.1 + 0.6) / 2)


def test_cott_on_paper():
    # The source's labels are half and half and so are its predictions: costs .05 .15 .35 .45, e = 1/2,
    # threshold .35. The target has 4 of 5 rows predicted 0 but only 2.5 may stay: rows .7 (cost .7 when
    # moved) and half of row .75 move, which costs least. Costs: .1, .2, .7, .4, and .25 | .75 by halves.
    estimate = sg.estimate(SOURCE, TARGET, method="cott", calibration="none")
    assert estimate.details["threshold"] == pytest.approx(0.35)
    assert estimate.error == pytest.approx((1 + 1 + 0.5) / 5)
    assert sg.estimate(SOURCE, TARGET, method="cot", calibration="none").error == pytest.approx(
        (0.1 + 0.2 + 0.7 + 0.4 + 0.5 * 0.25 + 0.5 * 0.75) / 5
    )


def test_scot_at_equal_rows():
    # All rows (.8, .2), q = (1/2, 1/2): every row must keep 1/2, so half the mass is off the prediction.
    source = sg.Source(probs=[[0.9, 0.1], [0.2, 0.8]], labels=[0, 1])
    assert error("scot", source, sg.Target(probs=[[0.8, 0.2]] * 7)) == pytest.approx(0.5, abs=1e-10)


def test_entropy():
    estimate = sg.estimate(
        SOURCE, sg.Target(probs=[[0.5, 0.5], [1.0, 0.0]]), method="entropy", calibration="none"
    )
    assert estimate.score == pytest.approx(np.log(2) / 2)
    assert estimate.error is None
    assert estimate.accuracy is None


def test_deployed_decisions_count_not_the_argmax():
    probs = [[0.6, 0.4], [0.7, 0.3]]
    source = sg.Source(probs=probs, labels=[1, 0], predictions=[1, 0])
    assert source.error == 0.0
    target = sg.Target(probs=probs, predictions=[1, 1])
    assert error("ac", source, target) == pytest.approx((0.6 + 0.7) / 2)


def test_a_known_marginal():
    target = sg.Target(probs=[[0.9, 0.1], [0.6, 0.4]])
    assert error("cot", target=target, marginal=[1.0, 0.0]) == pytest.approx((0.1 + 0.4) / 2)
    assert error("scot", target=target, marginal=[1.0, 0.0]) == pytest.approx(0.0, abs=1e-10)
    assert error("cot", target=target, marginal={0: 0.0, 1: 1.0}) == pytest.approx((0.9 + 0.6) / 2)


class TestDeployedDecisions:
    """Every formula that speaks of the prediction means the deployed decision, not the argmax."""

    # argmax would be 0, 0, 1, 1 on the source; the rule says 1, 0, 1, 0
    source = sg.Source(
        probs=[[0.6, 0.4], [0.9, 0.1], [0.2, 0.8], [0.45, 0.55]],
        labels=[1, 0, 1, 1],
        predictions=[1, 0, 1, 0],
    )
    target = sg.Target(probs=[[0.6, 0.4], [0.7, 0.3]], predictions=[1, 0], second=[1, 1])

    def test_source_error(self):
        assert self.source.error == 0.25

    def test_ac(self):
        assert error("ac", self.source, self.target) == pytest.approx((0.6 + 0.3) / 2)

    def test_doc(self):
        # confidences in the decisions: source .4 .9 .8 .45 (mean .6375), target .4 .7 (mean .55)
        assert error("doc", self.source, self.target) == pytest.approx(0.25 + 0.6375 - 0.55)

    def test_im(self):
        # source bins (.3,.4] right, (.8,.9] right, (.7,.8] right, (.4,.5] wrong; the target's .4 is right,
        # its .7 in (.6,.7] is nearest to (.7,.8]: right
        assert error("im", self.source, self.target) == 0.0

    def test_gde(self):
        assert error("gde", self.source, self.target) == 0.5

    def test_scot(self):
        # q = (1/4, 3/4); one weight w for class 1 with mean r_1 = 3/4; off the decisions (1, 0)
        p = np.array([[0.6, 0.4], [0.7, 0.3]])
        w = next(
            w for w in np.linspace(1, 20, 400_000) if (p[:, 1] * w / (p[:, 0] + p[:, 1] * w)).mean() >= 0.75
        )
        r = p * [1.0, w]
        r /= r.sum(axis=1, keepdims=True)
        assert error("scot", self.source, self.target) == pytest.approx(1 - (r[0, 1] + r[1, 0]) / 2, abs=1e-4)

    @pytest.mark.parametrize("method", ["cot", "cott"])
    def test_transport_refuses_them(self, method):
        with pytest.raises(
            sg.InputError, match=rf"^{method}: the deployed decisions differ .* 50% of the source's"
        ):
            sg.estimate(self.source, self.target, method=method)
        plain = sg.Source(probs=[[0.6, 0.4], [0.9, 0.1], [0.2, 0.8]], labels=[1, 0, 1])
        with pytest.raises(sg.InputError, match=r"50% of the target's rows.* use auto, scot or doc"):
            sg.estimate(plain, self.target, method=method)


def test_rows_say_what_the_plan_does():
    from shiftgauge.inference.row_tables import row_table

    source = sg.Source(probs=[[0.9, 0.1], [0.2, 0.8]], labels=["a", "b"], classes=["a", "b"])
    target = sg.Target(probs=[[0.9, 0.1], [0.6, 0.4]], classes=["a", "b"])
    table = row_table(sg.Pair(source, target, "none"))
    assert table["prediction"].tolist() == ["a", "a"]
    assert table["transport_label"].tolist() == ["a", "b"]  # the second row is moved
    assert table["transport_cost"] == pytest.approx([0.1, 0.6])
    assert table["confidence"] == pytest.approx([0.9, 0.6])


def test_w1_to_the_zero_vector_is_one_minus_ac():
    """From the scores to the zero vector every plan is the same: the mean of the L-infinity norms."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 50)
    ground = np.abs(p[:, None, :] - np.zeros((1, 1, 4))).max(axis=2)
    assert ground.mean() == pytest.approx(
        1 - error("ac", sg.Source(probs=np.eye(4), labels=range(4)), sg.Target(probs=p))
    )
