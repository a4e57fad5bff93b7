"""The score test over all sites: which sums of scores are beyond chance.

Each component of a test (a cell of a table, a pair of residuals) has a score U, by how much the
data differ from independence, and its null variance V, both summed over strata and sites. A test
says dependent where any of these is beyond its threshold:

component   U^2 > z^2 V + z^4 / 6   for any of m components, z by Šidák's correction
trace       sum_c U_c^2 / e_c > q sum_c V_c / e_c   where there are several components
sites       the sum of the sites' own normal scores is above the line of `site_line`

The constant z^4 / 6 keeps the level of a component whose count is rare: over all V, a Poisson count
exceeds the threshold with 1.1 times the nominal chance at .01, 1.2 times at .001, twice at 1e-5.
One component alone sees little of a dependence that is spread over a large table; the trace sees
it. Its weights 1 / e_c are public, and so is the quantile q: a chi-square with the first two
moments of the trace (Satterthwaite), whose fourth cumulants are those of Poisson counts. The sites'
own tests see a dependence whose direction differs from site to site.

Each threshold is linear in V, so that a secure comparison decides it; `p_values` gives the least
level at which any of them is exceeded.

Source: Mantel and Haenszel, JNCI 22 (1959) 719-748; Šidák, JASA 62 (1967) 626-633; Satterthwaite,
Biometrics Bulletin 2 (1946) 110-114; Stouffer et al., The American Soldier (1949).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray
from cipherdag.statistics.chi_square_moments import LEAST_EXPECTED

SITES_SHARE = 0.1
"""Of the level, for the sites' own tests."""
TRACE_SHARE = 0.5
"""Of the level that is left, for the trace, where a test has several components."""
LEAST_DOF = 2.5
"""Of a trace; one of fewer is of few rare counts, which are far from a chi-square."""


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Components of some tests, and their public properties.

    Attributes:
        sizes: Components of every test, shape (B,).
        expected: About how large a count of every component is, a power of two of at least
            `LEAST_EXPECTED`, shape (K,).
        dof: Degrees of freedom of every test's trace, shape (B,).
        alone: Which components are compared by themselves, shape (K,): not those of the rarest
            category of a variable of several, which the others determine.
    """

    sizes: IndexArray
    expected: FloatVector
    dof: FloatVector
    alone: BoolVector

    @property
    def owner(self) -> IndexArray:
        """The test of every component, shape (K,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def taken(self, tests: IndexArray) -> Components:
        """Some of the tests, in any order and as often as wanted."""
        sizes = self.sizes[tests]
        first = np.cumsum(self.sizes) - self.sizes
        index = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes - first[tests], sizes)
        return Components(sizes, self.expected[index], self.dof[tests], self.alone[index])

    @property
    def n_alone(self) -> IndexArray:
        """How many components of every test are compared by themselves, shape (B,)."""
        return np.bincount(self.owner[self.alone], minlength=len(self.sizes))

    @property
    def several(self) -> NDArray[np.bool_]:
        """Which tests have a trace: those whose components vary enough together, shape (B,)."""
        return (self.sizes > 1) & (self.dof >= LEAST_DOF)


@dataclass(frozen=True, slots=True, eq=False)
class Thresholds:
    """Critical values of the scores at one level.

    Attributes:
        squared: z^2 of every test, shape (B,).
        constant: What is added to z^2 V, shape (B,).
        quantile: q of every test; 0 without a trace.
        site: t.
    """

    squared: FloatVector
    constant: FloatVector
    quantile: FloatVector
    site: float

    @classmethod
    def at(cls, alpha: float, components: Components) -> Thresholds:
        """The critical values of the level ``alpha``."""
        from scipy.special import chdtri, ndtri

        sizes, several = np.maximum(components.n_alone, 1), components.several
        level = (1.0 - SITES_SHARE) * alpha * np.where(several, 1.0 - TRACE_SHARE, 1.0)
        each = -np.expm1(np.log1p(-level) / sizes)
        squared = ndtri(each / 2.0) ** 2
        of_trace = (1.0 - SITES_SHARE) * alpha * TRACE_SHARE
        dof = np.where(several, components.dof, 1.0)
        quantile = np.where(several, chdtri(dof, of_trace) / dof, 0.0)
        site = -float(ndtri(SITES_SHARE * alpha))
        return cls(squared, squared**2 / 6.0, quantile, site)


def components_of(shapes: list[tuple[FloatVector, FloatVector]], rows: float) -> Components:
    """The components of tests from the shares of the categories of both variables.

    Args:
        shapes: Of every test, the shares of the categories of its rows and of its columns: of two
            categories one alone; an empty array for a number, or an order.
        rows: Rows of all sites, at least 1.
    """
    sizes, dof = [], []
    expected, alone = [np.zeros(0)], [np.zeros(0, dtype=bool)]
    per_shape: dict[bytes, tuple[FloatVector, float, BoolVector]] = {}
    for of_rows, of_columns in shapes:
        key = of_rows.tobytes() + b"|" + of_columns.tobytes()
        if key not in per_shape:
            per_shape[key] = _of_one(of_rows, of_columns, rows)
        expected_counts, degrees, compared = per_shape[key]
        alone.append(compared)
        sizes.append(len(expected_counts))
        dof.append(degrees)
        expected.append(expected_counts)
    return Components(
        np.array(sizes, dtype=np.int64),
        np.concatenate(expected),
        np.array(dof, dtype=np.float64),
        np.concatenate(alone),
    )


def _of_one(
    of_rows: FloatVector, of_columns: FloatVector, rows: float
) -> tuple[FloatVector, float, BoolVector]:
    """Expected counts, the trace's degrees of freedom, and what is compared by itself."""
    (first, among_rows), (second, among_columns) = map(_side, (of_rows, of_columns))
    exact = rows * np.outer(first, second)
    expected = np.exp2(np.rint(np.log2(np.maximum(exact, LEAST_EXPECTED))))
    variances = rows * np.outer(among_rows.diagonal(), among_columns.diagonal())
    mean = float((variances / expected).sum())
    # one factor after the other, without BLAS: its last digit depends on the processor
    weighted = np.einsum("ij,jl->il", 1.0 / expected, among_columns**2)
    squares = np.einsum("ik,il,kl->", among_rows**2, weighted, 1.0 / expected)
    spread = 2.0 * rows * rows * float(squares) + float((variances / expected**2).sum())
    alone = np.logical_and.outer(*(
        (np.arange(len(side)) != np.argmin(side)) | (len(side) == 1) for side in (first, second)
    ))  # fmt: skip
    return expected.ravel(), 2.0 * mean * mean / spread, alone.ravel()


def _side(shares: FloatVector) -> tuple[FloatVector, FloatMatrix]:
    """The expected share of every category, and the covariances of the categories' indicators."""
    if not len(shares):
        return np.ones(1), np.ones((1, 1))
    covariances = np.diag(shares) - np.outer(shares, shares)
    return (covariances.diagonal() if len(shares) == 1 else shares), covariances


def site_line(threshold: float, n_sites: int) -> tuple[float, float]:
    """The line a + b k that bounds ``threshold`` sqrt(k) from above.

    It is the tangent at half of the sites: 6 % above the root at all of them and at a quarter.

    Args:
        threshold: t, at least 0.
        n_sites: Number of sites, at least 1.

    Returns:
        a and b.
    """
    root = math.sqrt(n_sites / 2.0)
    return threshold * root / 2.0, threshold * 0.5 / root


def p_values(
    components: Components,
    scores: FloatVector,
    variances: FloatVector,
    site_scores: FloatVector,
    sites: FloatVector,
    n_sites: int,
) -> FloatVector:
    """The least level at which a test says dependent, shape (B,); 1 where nothing varies.

    Args:
        components: Of the tests.
        scores: U, shape (K,).
        variances: V, shape (K,).
        site_scores: Sum of the sites' own normal scores, shape (B,).
        sites: How many have one, shape (B,).
        n_sites: How many sites there are.
    """
    from scipy.special import chdtrc, ndtr

    owner, several = components.owner, components.several
    # z^2 of U^2 = z^2 V + z^4 / 6
    squared = 3.0 * (np.hypot(variances, np.abs(scores) * math.sqrt(2.0 / 3.0)) - variances)
    largest = np.zeros(len(components.sizes))
    np.maximum.at(largest, owner, np.where(components.alone, squared, 0.0))
    sizes = np.maximum(components.n_alone, 1)
    with np.errstate(divide="ignore"):
        of_component = -np.expm1(sizes * np.log1p(-np.minimum(2.0 * ndtr(-np.sqrt(largest)), 1.0)))
    form, mean = (
        np.bincount(owner, weights=terms / components.expected, minlength=len(largest))
        for terms in (scores**2, variances)
    )
    has_trace = several & (mean > 0.0)
    dof = np.where(has_trace, components.dof, 1.0)
    ratio = np.where(has_trace, form * dof / np.where(mean > 0.0, mean, 1.0), 0.0)
    of_trace = np.where(has_trace, chdtrc(dof, ratio), 1.0)
    constant, slope = site_line(1.0, n_sites)
    standard = site_scores / (constant + slope * sites)
    of_sites = np.where(sites > 0, ndtr(-standard), 1.0)
    main = np.where(
        several,
        np.minimum(of_component / (1.0 - TRACE_SHARE), of_trace / TRACE_SHARE),
        of_component,
    )
    return np.minimum(np.minimum(main / (1.0 - SITES_SHARE), of_sites / SITES_SHARE), 1.0)
