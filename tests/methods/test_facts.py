"""The facts of theory, each with a short proof, as properties of random problems."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.optimize import linprog

import shiftgauge as sg
from shiftgauge.labelshift import shrink, total_variation


@st.composite
def problems(draw, max_rows=40, max_classes=6):
    """Probabilities with many ties and some zeros, predictions by argmax, and a marginal."""
    n = draw(st.integers(1, max_rows))
    k = draw(st.integers(2, max_classes))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    coarse = draw(st.sampled_from([2, 4, 10, None]))
    if coarse is None:
        p = rng.dirichlet(np.full(k, draw(st.sampled_from([0.1, 1.0, 10.0]))), n)
    else:
        p = rng.multinomial(coarse, np.full(k, 1 / k), n) / coarse
    q = rng.dirichlet(np.full(k, draw(st.sampled_from([0.3, 1.0, 30.0]))))
    if draw(st.booleans()):
        q[draw(st.integers(0, k - 1))] = 0.0
        q = q / q.sum() if q.sum() > 0 else np.full(k, 1 / k)
    return p, q


def evaluate(method, p, q, **extra):
    k = p.shape[1]
    source = sg.Source(probs=np.eye(k), labels=np.arange(k))
    return sg.estimate(source, sg.Target(probs=p, **extra), method=method, calibration="none", marginal=q)


def ac(p):
    return float(np.mean(1 - p.max(axis=1)))


def pseudo(p):
    return np.bincount(p.argmax(axis=1), minlength=p.shape[1]) / len(p)


@given(problems())
def test_cot_is_never_below_ac_and_equal_at_the_pseudo_labels(problem):
    p, q = problem
    assert evaluate("cot", p, q).error >= ac(p) - 1e-12
    assert evaluate("cot", p, pseudo(p)).error == pytest.approx(ac(p), abs=1e-12)


@given(problems())
def test_cot_is_at_most_ac_plus_the_shift(problem):
    p, q = problem
    assert evaluate("cot", p, q).error <= ac(p) + total_variation(q, pseudo(p)) + 1e-12


@given(problems())
def test_cot_and_scot_meet_their_guarantees(problem):
    p, q = problem
    shift = total_variation(q, pseudo(p))
    assert evaluate("cot", p, q).error >= shift / 2 - 1e-12
    # zero probabilities are floored, and SCOT meets q to 1e-10 in every class
    assert evaluate("scot", p, q).error >= shift - 1e-8


def test_the_half_guarantee_is_tight_for_cot_and_scot_doubles_it():
    # All rows predicted 0 by a hair, all labels 1: COT tends to 1/2, SCOT is 1.
    p = np.tile([0.5 + 1e-9, 0.5 - 1e-9], (100, 1))
    assert evaluate("cot", p, [0.0, 1.0]).error == pytest.approx(0.5, abs=1e-8)
    assert evaluate("scot", p, [0.0, 1.0]).error == pytest.approx(1.0, abs=1e-10)


@given(problems(), st.integers(0, 2**32 - 1))
def test_pseudo_label_shift_is_a_lower_bound_of_the_true_error(problem, seed):
    p, _ = problem
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, p.shape[1], len(p))
    truth = np.bincount(labels, minlength=p.shape[1]) / len(p)
    assert total_variation(pseudo(p), truth) <= np.mean(p.argmax(axis=1) != labels) + 1e-12


@given(problems(), st.integers(0, 2**32 - 1))
def test_cot_under_label_shift_keeps_the_weaker_bound(problem, seed):
    p, source = problem
    truth = np.random.default_rng(seed).dirichlet(np.ones(p.shape[1]))
    bound = (total_variation(pseudo(p), truth) - total_variation(source, truth)) / 2
    assert evaluate("cot", p, source).error >= bound - 1e-12


@given(problems(max_classes=2))
def test_two_classes_have_a_closed_form(problem):
    p, q = problem
    # Sort by p_1: the top q_1 share of the mass gets class 1.
    top = np.sort(p[:, 1])[::-1]
    n = len(top)
    share = np.clip(n * q[1] - np.arange(n), 0.0, 1.0)
    closed = np.mean(share * (1 - top) + (1 - share) * top)
    assert evaluate("cot", p, q).error == pytest.approx(closed, abs=1e-12)


@given(problems(), st.integers(0, 2**32 - 1))
def test_cot_is_invariant(problem, seed):
    p, q = problem
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(p)), rng.permutation(p.shape[1])
    value = evaluate("cot", p, q).error
    assert evaluate("cot", p[rows], q).error == pytest.approx(value, abs=1e-12)
    assert evaluate("cot", p[:, columns], q[columns]).error == pytest.approx(value, abs=1e-12)
    assert evaluate("cot", np.repeat(p, 3, axis=0), q).error == pytest.approx(value, abs=1e-12)


@given(problems(), st.integers(0, 2**32 - 1))
def test_cott_is_invariant_up_to_its_tie_mass(problem, seed):
    p, q = problem
    rng = np.random.default_rng(seed)
    k = p.shape[1]
    labels = np.r_[np.arange(k), rng.integers(0, k, 20)]
    scores = np.r_[np.eye(k), rng.multinomial(4, np.full(k, 1 / k), 20) / 4]
    order, columns = rng.permutation(len(p)), rng.permutation(k)

    def cott(source, target, marginal):
        return sg.methods.COTT(calibration="none", marginal=marginal).fit(source).estimate(target)

    one = cott(sg.Source(probs=scores, labels=labels), sg.Target(probs=p), q)
    two = cott(
        sg.Source(
            probs=scores[:, columns],
            labels=np.argsort(columns)[labels],
            predictions=np.argsort(columns)[scores.argmax(1)],
        ),
        sg.Target(probs=p[order][:, columns]),
        q[columns],
    )
    assert abs(one.error - two.error) <= max(one.details["tie_mass"], two.details["tie_mass"]) + 1e-9


@given(problems())
def test_every_transport_is_certified(problem):
    certificate = evaluate("cot", *problem).details["certificate"]
    assert abs(certificate["gap"]) <= 1e-9
    assert certificate["primal"] - certificate["dual"] == pytest.approx(certificate["gap"], abs=1e-12)


@given(problems())
def test_scot_at_the_mean_posterior_is_ac(problem):
    p, _ = problem
    assume((p > 0).all())
    assert evaluate("scot", p, p.mean(axis=0)).error == pytest.approx(ac(p), abs=1e-8)


@example(([[0, 1], [0, 1], [1, 0]], [0.9796095979795267, 0.0203904020204734]))
@example(
    (
        [[0, 0, 0, 0, 1], [0.5, 0.5, 0, 0, 0], [0, 0.5, 0, 0.5, 0], [0.5, 0, 0.5, 0, 0]],
        [0.01319399, 0.1946222, 0.15449894, 0.57325789, 0.06442698],
    )
)
@given(problems())
def test_scot_meets_its_marginal(problem):
    p, q = (np.asarray(part, dtype=float) for part in problem)
    # 1e-7: where every row is certain, the optimum lies where F is flat to rounding
    assert evaluate("scot", p, q).details["marginal_error"] <= 1e-7


def test_scot_at_the_mlls_marginal_is_the_reweighted_confidence(rng):
    """MLLS by plain EM, written again here: its posteriors are SCOT's at that marginal."""
    base = np.array([0.5, 0.3, 0.2])
    p = rng.dirichlet([0.6, 0.5, 0.9], 400)
    w = np.ones(3)
    for _ in range(20000):
        r = p * w
        r /= r.sum(axis=1, keepdims=True)
        w = r.mean(axis=0) / base
    q = base * w / (base * w).sum()
    reweighted = 1 - r[np.arange(400), p.argmax(axis=1)].mean()
    assert evaluate("scot", p, q).error == pytest.approx(reweighted, abs=1e-7)


@given(st.integers(2, 5), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_scot_is_exact_under_label_shift(k, cells, seed):
    """A population of few cells: p is the source's posterior, and the target has new label shares and nothing else."""
    rng = np.random.default_rng(seed)
    given_label = rng.dirichlet(np.ones(cells), k)
    source, target = rng.dirichlet(np.full(k, 5.0), 2)
    p = given_label.T * source
    p /= p.sum(axis=1, keepdims=True)
    joint = given_label.T * target
    truth = 1 - joint[np.arange(cells), p.argmax(axis=1)].sum()
    mass = joint.sum(axis=1)
    assert evaluate("scot", p, target, weights=mass).error == pytest.approx(truth, abs=1e-7)


def test_the_limits_of_scots_strength(rng):
    """The strength is a temperature: towards 0 it is exact transport at cost -log p, towards infinity chance."""
    p, q = rng.dirichlet(np.ones(3), 30), np.array([0.5, 0.3, 0.2])

    def at(strength):
        powers = p ** (1 / strength)
        return evaluate("scot", powers / powers.sum(axis=1, keepdims=True), q).error

    n, k = p.shape
    rows, columns = np.kron(np.eye(n), np.ones(k)), np.kron(np.ones(n), np.eye(k))
    plan = linprog(
        -np.log(p).ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([np.full(n, 1 / n), q])
    ).x.reshape(n, k)
    assert at(0.01) == pytest.approx(1 - plan[np.arange(n), p.argmax(axis=1)].sum(), abs=1e-4)
    assert at(1e6) == pytest.approx(1 - pseudo(p) @ q, abs=1e-5)


@pytest.mark.slow
def test_shrinking_takes_out_the_noise_of_no_shift():
    """With no shift and 500 + 500 rows SCOT reads sampling noise as error; with the noise-aware marginal it does not.

    The posterior is exact, so mean doubt on the target is unbiased, and SCOT is compared with it row set by row set.
    """
    rng = np.random.default_rng(3)

    def sample(n):
        labels = rng.integers(0, 10, n)
        z = rng.normal(size=(n, 10)) + 2.2 * np.eye(10)[labels]
        p = np.exp(2.2 * z)  # z_j given the label is normal around 2.2 or 0
        return p / p.sum(axis=1, keepdims=True), labels

    bias = {("scot", "source"): [], ("scot", "shrunk"): [], ("cott", "source"): [], ("cott", "shrunk"): []}
    for _ in range(20):
        probs, labels = sample(500)
        source = sg.Source(probs=probs, labels=labels)
        rows, _ = sample(500)
        for (method, marginal), values in bias.items():
            found = sg.estimate(
                source, sg.Target(probs=rows), method=method, calibration="none", marginal=marginal
            )
            values.append(found.error - ac(rows))
    mean = {key: float(np.mean(values)) for key, values in bias.items()}  # standard error 0.002
    assert mean["scot", "source"] > 0.009
    assert abs(mean["scot", "shrunk"]) < mean["scot", "source"] / 2
    assert mean["cott", "shrunk"] < mean["cott", "source"] - 0.004  # paired: the source's noise cancels


def test_shrinking_keeps_a_real_shift():
    q, h = np.array([0.5, 0.5]), np.array([0.8, 0.2])
    kept, s = shrink(q, h, h * (1 - h), 10_000, 10_000)
    assert s > 0.99
    assert kept == pytest.approx(q, abs=0.001)


@given(problems())
def test_w1_between_label_distributions_is_total_variation(problem):
    """One-hot rows of shares a, transported to q: the cost is TV(a, q)."""
    p, q = problem
    a = pseudo(p)
    k = len(q)
    estimate = evaluate("cot", np.eye(k), q, weights=a)
    assert estimate.error == pytest.approx(total_variation(a, q), abs=1e-12)
