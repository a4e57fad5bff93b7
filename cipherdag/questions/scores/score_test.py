"""The score test over all sites: whether sums of scores are beyond chance.

Each component c of a test (a cell of a table, a pair of residuals) has a score U_kc at site k, over
all strata: by how much the data differ from independence. A test says dependent where one of two
sums exceeds its threshold. That too is a sum over sites, so that a secure comparison decides it:

form    sum_c (sum_k U_kc)^2 > sum_k a_k h(f_k / a_k)
sites   the sum of the sites' own normal scores > the line of `site_line`; it sees a dependence
        whose direction differs from site to site

Under independence site k knows the covariance of its scores, Sigma_k. The form has mean sum a_k,
where a_k is the trace of Sigma_k. Its variance is 2 (sum f_k)^2 at most, by the triangle inequality
of Frobenius norms: f_k^2 is the trace of Sigma_k^2 plus what fourth cumulants of rare counts add.
h(r), the quantile of a form whose mean is 1 and variance 2 r^2, has three terms (`_quantile`):

within  that of a chi-square of 1 / r^2 degrees of freedom, times r^2 (Satterthwaite)
uneven  what directions of unequal variance may add, at most what skewness adds to the first
beyond  for r > 1, where counts are too rare for one degree of freedom

h is convex at levels up to .02, to half a percent. So the sites' parts add up to an upper bound,
and to the quantile itself where sites are alike. With one component of variance V the threshold is
z^2 V + z^4 / 6. Over all V, a Poisson count exceeds it with 1.1 times the nominal chance at .01,
1.2 times at .001, twice at 1e-5. `p_values` gives the least level at which either sum exceeds.

Source: Mantel and Haenszel, JNCI 22 (1959) 719-748; Satterthwaite, Biometrics Bulletin 2 (1946)
110-114; Stouffer et al., The American Soldier (1949).
"""

import math

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray

SITES_SHARE = 0.1  # share of a test's level that the sites' own tests have
RARE = 0.25  # of z^4 (r^2 - 1), which is what h gains beyond r = 1
FULL_SKEW = 9.0  # value of z^2 - 1 from which on the uneven term is whole
LEAST_P = 1e-300
LEAST_MEAN = 1e-100
"""A smaller mean counts as 0: the square of a ratio to it could overflow."""
LEAST_RATIO = 1e-4
STEPS = 6  # iterations that find a least level to ten digits


def rare_constant(level: float) -> float:
    """z^4 / 6, by which the threshold of one component is above z^2 V at a level of the form."""
    from scipy.special import chdtri

    return float(chdtri(1.0, level)) ** 2 / 6.0


def form_level(alpha: float) -> float:
    """The part of a test's level that the form has."""
    return (1.0 - SITES_SHARE) * alpha


def site_threshold(alpha: float) -> float:
    """The normal score that the sites' own tests need at a level."""
    from scipy.special import ndtri

    return -float(ndtri(SITES_SHARE * alpha))


def form_threshold(mean: FloatVector, spread: FloatVector, level: float) -> FloatVector:
    """Parts a h(f / a) of the forms' thresholds, of means a and spreads f; 0 if nothing varies."""
    varies = mean > LEAST_MEAN
    ratio = np.where(varies, spread / np.where(varies, mean, 1.0), 1.0)
    return mean * _quantile(ratio, np.array([level]))


def most_of_threshold(
    mean: FloatVector, n_sites: int, level: float, visits: int = 1
) -> FloatVector:
    """A bound of the sum of parts, where no row counts for more than 1 in a form, shape (B,).

    ``mean`` is the largest sum of the sites' means, ``visits`` the most rows that belong together,
    as those of a patient do.
    """
    one = form_threshold(np.ones(1), np.ones(1), level)
    # the uneven term is one / 8 at most, by r^2 (1 - r) <= 4 / 27, and f is at most `most_spread`
    rare = n_sites * RARE / 2.0 * one**2 * visits**2
    return mean * (np.maximum(one, 1.0) + one / 8.0) + rare


def most_spread(mean: float, visits: int) -> float:
    """The largest f, of a and the most rows that belong together: f^2 = a^2 + a visits^2 / 2."""
    return math.sqrt(mean * mean + mean * visits * visits / 2.0)


def _quantile(ratio: FloatVector, level: FloatVector) -> FloatVector:
    """h(r) at levels, shape (B,): a quantile of a form whose mean is 1 and variance 2 r^2."""
    from scipy.special import chdtri

    within = np.clip(ratio, LEAST_RATIO, 1.0) ** 2
    beyond = RARE * chdtri(1.0, level) ** 2 * np.maximum(ratio**2 - 1.0, 0.0)
    quantile: FloatVector = within * chdtri(1.0 / within, level) + _uneven(ratio, level) + beyond
    return quantile


def _uneven(ratio: FloatVector, level: FloatVector) -> FloatVector:
    """What directions of unequal variance may add to h(r), shape (B,); 0 from r = 1 on."""
    from scipy.special import ndtri

    skew = np.where(level < 0.5, np.maximum(ndtri(level) ** 2 - 1.0, 0.0), 0.0)  # noqa: PLR2004
    one = np.clip(ratio, LEAST_RATIO, 1.0)
    uneven: FloatVector = skew * np.minimum(skew / FULL_SKEW, 1.0) * one**2 * (1.0 - one) / 1.5
    return uneven


def site_line(threshold: float, n_sites: int) -> tuple[float, float]:
    """The line a + b k, as (a, b), that bounds ``threshold`` sqrt(k) from above.

    It is the tangent at half of the sites: 6 % above the root at all of them and at a quarter.
    """
    root = math.sqrt(n_sites / 2.0)
    return threshold * root / 2.0, threshold * 0.5 / root


def p_values(
    sizes: IndexArray,
    scores: FloatVector,
    means: FloatVector,
    spreads: FloatVector,
    site_scores: FloatVector,
    sites: FloatVector,
    n_sites: int,
) -> FloatVector:
    """The least level at which a test says dependent, shape (B,); 1 where nothing varies.

    ``sizes`` has the components of every test. All else is summed over the sites: U, shape (K,); a,
    f, the sites' own normal scores, and how many have one, shape (B,) each.
    """
    from scipy.special import ndtr

    owner = np.repeat(np.arange(len(sizes)), sizes)
    form = np.zeros(len(sizes))
    np.add.at(form, owner, scores**2)
    # the z^2 at which U^2 is the threshold of one component, z^2 V + z^4 / 6
    squared = 3.0 * (np.hypot(means, np.sqrt(form * (2.0 / 3.0))) - means)
    of_form = np.minimum(2.0 * ndtr(-np.sqrt(squared)), 1.0)
    several: BoolVector = sizes > 1
    of_form[several] = _least_levels(form[several], means[several], spreads[several])
    constant, slope = site_line(1.0, n_sites)
    of_sites = np.where(sites > 0, ndtr(-site_scores / (constant + slope * sites)), 1.0)
    return np.minimum(np.minimum(of_form / form_level(1.0), of_sites / SITES_SHARE), 1.0)


def _least_levels(form: FloatVector, mean: FloatVector, spread: FloatVector) -> FloatVector:
    """The least level at which a form exceeds its threshold, shape (B,), by iteration."""
    from scipy.special import chdtrc

    varies = mean > 0.0
    scale = np.where(varies, mean, 1.0)
    size, ratio = np.where(varies, form / scale, 0.0), spread / scale
    within = np.clip(ratio, LEAST_RATIO, 1.0) ** 2
    # from r = 1 on h is z^2 + rare z^4: solved for z^2
    rare = RARE * np.maximum(ratio**2 - 1.0, 0.0)
    size = 2.0 * size / (1.0 + np.sqrt(1.0 + 4.0 * rare * size))

    def log_level(log: FloatVector) -> FloatVector:
        rest = np.maximum(size - _uneven(ratio, np.exp(log)), 0.0)
        return np.log(np.clip(chdtrc(1.0 / within, rest / within), LEAST_P, 1.0))

    level = log_level(np.zeros(len(size)))
    for _ in range(STEPS):
        once = log_level(level)
        twice = log_level(once)
        # the limit of such steps by extrapolation (Aitken, 1926), no further than the last two
        bend = twice - 2.0 * once + level
        aim = level - (once - level) ** 2 / np.where(bend == 0.0, 1.0, bend)
        aim = np.where(bend == 0.0, twice, aim)
        level = np.clip(aim, np.minimum(once, twice), np.maximum(once, twice))
    return np.where(varies, np.exp(level), 1.0)
