"""Is the target the source with other class proportions? A minimum-distance J test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shiftgauge.labelshift.cells import Array, Indices
from shiftgauge.labelshift.counts import TURNS, Counts, count, minimum, shares_given, solved

#: Fewer source rows per class than this, or fewer target rows per cell, and the p-value is bootstrapped.
SPARSE_ROWS, SPARSE_CELL = 300, 10.0
#: Below this chi-square p-value no correction for sparse counts could change the result.
HOPELESS = 1e-12
#: Replicates of the parametric bootstrap; fewer for many classes, to do about so much work in all.
REPLICATES, FEWEST, WORK = 199, 10, 1.5e10
#: Replicates are drawn and fitted together, in stacks of at most so many numbers.
STACK = 4e6
#: With fewer replicates than this, p-values are read off a fitted distribution.
COUNTED = 99
#: The level of the test wherever nothing else is asked for.
LEVEL = 0.05


@dataclass(frozen=True)
class JTest:
    """The test of "only class proportions changed".

    Attributes:
        statistic: J, the squared distance of the target's cells from the best re-weighting of the source's.
        df: cells - labels with a positive share.
        p_value: of J; small means that more than class proportions changed. None where df < 1.
        reference: `"chi-square"` or `"parametric bootstrap"`.
        shares: (K,) the label shares of the best re-weighting.
        explained: the share of the source-to-target difference that re-weighting explains; None where there
            is no difference to explain.
        difference: the statistic with the source's own proportions, and
        difference_p: its chi-square p-value: small means that the target is not like the source at all.
        cells: how many cells were compared.
    """

    statistic: float
    df: int
    p_value: float | None
    reference: str
    shares: Array
    explained: float | None
    difference: float
    difference_p: float
    cells: int

    def kind(self, level: float = LEVEL) -> str:
        """Which shift it is; the one place where that is decided.

        `"none"`: no difference beyond sampling noise. `"label"`: other class proportions explain it.
        `"other"`: more than class proportions changed (they may have changed too). `"unknown"`: too few rows
        per class for the test to say anything.
        """
        if self.p_value is None:
            return "unknown"
        if self.p_value <= level:
            return "other"
        return "none" if self.explained is None else "label"


def j_test(
    source_cells: Indices,
    labels: Indices,
    source_mass: Array,
    target_cells: Indices,
    target_mass: Array,
    cells: int,
    k: int,
    *,
    seed: int = 0,
) -> JTest:
    """Test whether the target's cell shares h are a mixture of the source's per-label cell shares A_c.

        J = min over pi >= 0, sum pi = 1, of  (h - A pi)' V(pi)^-1 (h - A pi),
        V(pi) = [diag(A pi) - A pi (A pi)'] / n_target + sum_c pi_c^2 [diag(A_c) - A_c A_c'] / n_c:

    the target's multinomial noise and the source's, label by label. Under the hypothesis J has about a
    chi-square distribution with cells - K degrees of freedom; shares are kept at 0 or more, and one that is
    held at 0 was not fitted and gives its degree back. A label without source rows is left out. Where
    counts are sparse the p-value comes from drawing both samples again from the fitted mixture (parametric
    bootstrap, twice over).

    Args:
        source_cells, labels, source_mass: (n_source,) cell and label of each row and its mass.
        target_cells, target_mass: (n_target,) the same for the target, which has no labels.
        cells, k: how many cells and classes.
        seed: of the parametric bootstrap.

    Reference: Hansen, Large Sample Properties of Generalized Method of Moments Estimators, 1982 (J test).
    """
    h = np.asarray(np.bincount(target_cells, weights=target_mass, minlength=cells), dtype=np.float64)
    n_t = float(h.sum() ** 2 / np.square(target_mass).sum())  # Kish: rows, or less where weights differ
    return j_test_of_shares(source_cells, labels, source_mass, h, n_t, k, seed=seed)


def j_test_of_shares(
    source_cells: Indices, labels: Indices, source_mass: Array, h: Array, n_t: float, k: int, *, seed: int = 0
) -> JTest:
    """The same from the target's cell shares h (C,) and its effective rows alone."""
    cells = len(h)
    counts, seen = count(source_cells, labels, source_mass, h, n_t, cells, k)
    value, pi = minimum(counts)
    statistic = float(value)
    df = cells - int((pi > 0.0).sum())
    own = np.asarray(np.bincount(labels, weights=source_mass, minlength=k)[seen], dtype=np.float64)
    difference = two_sample_statistic(counts, own)
    shares = np.zeros(k)
    shares[seen] = pi
    p_value, reference = p_value_and_reference(counts, statistic, pi, df, seed)
    return JTest(
        statistic=statistic,
        df=df,
        p_value=p_value,
        reference=reference,
        shares=shares,
        explained=explained_fraction(counts, own),
        difference=difference,
        difference_p=chi_square_tail(difference, cells - 1),
        cells=cells,
    )


def _own_variance(counts: Counts, own: Array) -> tuple[Array, float]:
    """(C,) the cell shares p of both samples together, and the factor that makes p the variance of their difference."""
    n_s = float(1.0 / np.square(own / np.sqrt(counts.n)).sum()) if len(own) else 1.0
    n_s = min(n_s, float(counts.n.sum()))
    both = (counts.h * counts.n_t + (counts.A @ own) * n_s) / (counts.n_t + n_s)
    return np.asarray(both), 1.0 / counts.n_t + 1.0 / n_s


def _own_covariance(counts: Counts, own: Array) -> Array:
    """(C-1, C-1) the noise of h - A own where nothing changed: both samples are draws of the same cells."""
    both, noise = _own_variance(counts, own)
    return np.asarray((np.diag(both) - np.outer(both, both))[:-1, :-1] * noise)


def two_sample_statistic(counts: Counts, own: Array) -> float:
    """The two-sample statistic of "nothing changed": the source's own label shares, their noise included."""
    gap = (counts.h - counts.A @ own)[:-1]
    return max(float(gap @ solved(_own_covariance(counts, own), gap)), 0.0) if len(gap) else 0.0


def p_value_and_reference(
    counts: Counts, statistic: float, pi: Array, df: int, seed: int
) -> tuple[float | None, str]:
    """The p-value of J, and the distribution it was compared with: chi-square, or a bootstrap of sparse counts."""
    if df < 1:
        return None, "none: no more cells than classes"
    expected = counts.n_t * (counts.smoothed() @ pi)
    plain = chi_square_tail(statistic, df)
    enough = counts.n.min() >= SPARSE_ROWS and np.quantile(expected, 0.1) >= SPARSE_CELL
    if enough or plain < HOPELESS:
        return plain, "chi-square"
    return _double_bootstrap(counts, statistic, pi, seed), "parametric bootstrap"


def _double_bootstrap(counts: Counts, statistic: float, pi: Array, seed: int) -> float:
    """The p-value of J by samples drawn from the fitted mixture, corrected by how such a p-value errs.

    A sample drawn from a fit has noise on top of noise, and its J runs a little high. How much, a second
    draw tells, from each replicate's own fit: where the plain bootstrap says p, J is compared with the
    replicates as if it were the 1 - p quantile of the second draws. Where many classes leave time for few
    replicates only, both distributions are read as gamma distributions of the same median and spread.

    Reference: Davidson and MacKinnon, Improving the Reliability of Bootstrap Tests with the Fast Double
    Bootstrap, 2007.
    """
    from scipy.special import gammaincc, gammainccinv

    rng = np.random.default_rng(seed)
    counts, order = counts.sorted()
    pi = pi[order]
    replicates = replicate_count(*counts.A.shape)
    together = max(1, int(STACK / counts.h.size**2))
    first, second = np.empty(replicates), np.empty(replicates)
    for begin in range(0, replicates, together):
        part = slice(begin, min(begin + together, replicates))
        start = np.broadcast_to(pi, (part.stop - begin, len(pi)))
        drawn = counts.repeated(len(start)).drawn(rng, start)
        first[part], fitted = minimum(drawn, start)
        second[part], _ = minimum(drawn.drawn(rng, fitted), fitted)
    if replicates >= COUNTED:
        plain = float((first >= statistic).mean())
        return float((1 + (first >= np.quantile(second, 1.0 - plain)).sum()) / (1 + replicates))
    (shape, scale), (shape_2, scale_2) = _gamma(first), _gamma(second)
    plain = gammaincc(shape, statistic / scale)
    return float(gammaincc(shape, scale_2 * gammainccinv(shape_2, plain) / scale))


def replicate_count(cells: int, k: int) -> int:
    """REPLICATES, or as many as about WORK multiplications allow, and at least FEWEST."""
    each = 2 * TURNS * cells**2 * (3 * k + cells / 3)
    return int(np.clip(WORK / each, FEWEST, REPLICATES))


def _gamma(values: Array) -> tuple[float, float]:
    """Shape and scale of a gamma distribution with the values' median, and their spread with the median's error.

    The spread of few values is a rough guess: it is never taken for less than a chi-square's.
    """
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    sd = max((high - low) / 1.349, np.sqrt(2.0 * middle)) * np.sqrt(1.0 + 1.0 / len(values))
    mean = middle * (1.0 + (sd / middle) ** 2 / 3.0)
    return float((mean / sd) ** 2), float(sd**2 / mean)


def explained_fraction(counts: Counts, own: Array) -> float | None:
    """1 - X(pi) / X(own), X Pearson's chi-square of all cells, less what noise alone gives.

    Both are measured by the same variances, and pi minimises X: the share lies between 0 and 1 by itself.
    """
    df = len(counts.h) - 1
    if df < 1:
        return None
    both, noise = _own_variance(counts, own)
    V = np.maximum(both * noise, 1e-15)
    pi = shares_given(counts.A, counts.h, np.diag(V))
    before, after = (float((np.square(counts.h - counts.A @ shares) / V).sum()) for shares in (own, pi))
    excess = before - df
    if excess <= 2.0 * np.sqrt(2.0 * df):  # within two standard deviations of no difference
        return None
    return float(min(1.0, max(0.0, 1.0 - max(after - (df + 1 - len(pi)), 0.0) / excess)))


def chi_square_tail(statistic: float, df: int) -> float:
    """The probability that a chi-square variable exceeds the statistic; 1 without degrees of freedom."""
    if df < 1:
        return 1.0
    from scipy.special import gammaincc

    return float(gammaincc(df / 2.0, max(statistic, 0.0) / 2.0))


def unexplained(
    source_cells: Indices,
    labels: Indices,
    source_mass: Array,
    target_shares: Array,
    shares: Array,
) -> float:
    """The total variation between the target's cell shares (C,) and the source's, re-weighted to the label shares."""
    own = np.bincount(labels, weights=source_mass, minlength=len(shares))
    weights = np.divide(shares, own, out=np.zeros(len(shares)), where=own > 0)
    expected = np.bincount(source_cells, weights=source_mass * weights[labels], minlength=len(target_shares))
    return float(np.abs(target_shares - expected).sum() / 2)
