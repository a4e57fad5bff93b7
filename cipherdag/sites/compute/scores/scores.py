"""Decomposable scores of graphs add one penalised likelihood per family; smaller is better.

A score is minus a penalised log likelihood, L(X; G) of the RFcd paper (section 3.3), as a sum over
the families of G. Constants of a variable alone are left out: they cancel in every regret.

Leaks:
    Nothing by themselves. Exact scores of a few graphs determine a table, so a site that restricts
    small counts perturbs likelihoods and rounds the penalty before any score is disclosed.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import TooFewRowsError
from cipherdag.graphs.dags import Dag, Family, members
from cipherdag.sites.compute.device import IN_CACHE, most_elements, placed, resolve_device
from cipherdag.sites.compute.rows import log_left_out
from cipherdag.statistics.array_functions import (
    Array,
    at_least,
    floats,
    full,
    functions_of,
    host,
    indices,
    like,
    segment_sums,
)

Noise = Callable[[FloatVector], FloatVector]
"""Noise that a site which restricts small counts adds to log likelihoods of sets of variables."""

SMALLEST_VARIANCE = 1e-12  # of a standardised variable; below, a variable counts as determined
CHUNK_ELEMENTS = 1 << 22
LARGEST_TABLE = 1 << 12  # cells; a larger one is renumbered by the cells that occur
PENALTY_BITS = 4  # ln n / 2 has this many bits below one if likelihoods are perturbed, to hide n


class FamilyScore(Protocol):
    """A family score rates every variable given its parents."""

    @property
    def n_variables(self) -> int:
        """The number of variables, p."""
        ...

    def evaluate(self, families: Sequence[Family]) -> FloatVector:
        """Computes the score of every family, shape (F,)."""
        ...


class LocalScores:
    """Caches a family score, so that every family is computed once.

    ``spend`` is called with the number of families about to be computed, and may refuse. Regrets
    are disclosed on a grid of 2**-disclosed_bits or coarser; None: as a question asks.
    """

    def __init__(
        self,
        score: FamilyScore,
        spend: Callable[[int], None] | None = None,
        *,
        disclosed_bits: int | None = None,
    ) -> None:
        self.n_variables = score.n_variables
        self.disclosed_bits = disclosed_bits
        self._score = score
        self._spend = spend
        self._scores: dict[Family, float] = {}

    def evaluate(self, families: Sequence[Family]) -> FloatVector:
        """Returns the score of every family, shape (F,), always with the same bits."""
        self.prepare(families)
        return np.array([self._scores[family] for family in families], dtype=np.float64)

    def prepare(self, families: Iterable[Family]) -> None:
        """Computes the families that are not cached, in one batch."""
        new = [family for family in dict.fromkeys(families) if family not in self._scores]
        if not new:
            return
        if self._spend is not None:
            self._spend(len(new))
        self._scores |= zip(new, self._score.evaluate(new).tolist(), strict=True)

    def of(self, family: Family) -> float:
        """Returns the score of one family."""
        if family not in self._scores:
            self.prepare([family])
        return self._scores[family]

    def total(self, dag: Dag) -> float:
        """Returns the score of a graph, the sum over its families."""
        self.prepare(enumerate(dag))
        return math.fsum(self._scores[family] for family in enumerate(dag))


class GaussianBic:
    """Scores linear Gaussian models by BIC: (n/2) ln s2(x | parents) + (ln n / 2) |parents|, nats.

    s2 is the residual variance over the variable's variance, so standardising the data changes
    nothing; it does not fall below 1e-12. A constant variable has s2 = 1 and explains nothing. Rows
    with a NaN are left out; TooFewRowsError where fewer than two are complete.
    """

    def __init__(
        self, values: NDArray[np.float64], *, device: str = "auto", noise: Noise | None = None
    ) -> None:
        complete = values[~np.isnan(values).any(axis=1)]
        log_left_out(len(values), len(complete))
        if len(complete) < 2:  # noqa: PLR2004
            raise TooFewRowsError("a score needs two rows without a missing value")
        self._rows, self._noise = len(complete), noise
        self._penalty = _penalty(len(complete), perturbed=noise is not None)
        self._device = resolve_device(device)
        standard = placed(standardised(complete), self._device)
        self._correlation = standard.T @ standard / self._rows
        diagonal = np.arange(values.shape[1])
        self._correlation[diagonal, diagonal] = 1.0
        self.n_variables = len(self._correlation)

    def evaluate(self, families: Sequence[Family]) -> FloatVector:
        """Computes the score of every family, shape (F,)."""
        scores = np.empty(len(families))
        for size, index, order in by_size(families):
            variances = np.empty((size + 1, len(index)))
            chunk = max(1, CHUNK_ELEMENTS // (size + 1) ** 2)
            for start in range(0, len(index), chunk):
                part = placed(order[start : start + chunk].T, self._device)
                entries = self._correlation[part[:, None], part[None]]
                variances[:, start : start + chunk] = host(_variances(entries))
            lost = 0.5 * self._rows * np.log(variances)
            scores[index] = lost[-1] + self._penalty * size
            if self._noise is not None:
                parents = -lost[:-1].sum(axis=0)
                scores[index] += _family_noise(self._noise, size, parents, parents - lost[-1])
        return scores


class DiscreteBic:
    """Scores tables by BIC: -sum n_jk ln(n_jk / n_j) + (ln n / 2) (levels - 1) configurations.

    Configurations are all combinations of the parents' declared levels, seen or not. Rows with a -1
    are left out; TooFewRowsError where fewer than two are complete.
    """

    def __init__(
        self,
        codes: NDArray[np.integer],
        levels: Sequence[int],
        *,
        device: str = "auto",
        noise: Noise | None = None,
    ) -> None:
        complete = codes[(codes >= 0).all(axis=1)]
        log_left_out(len(codes), len(complete))
        if len(complete) < 2:  # noqa: PLR2004
            raise TooFewRowsError("a score needs two rows without a missing value")
        self._rows, self._noise = len(complete), noise
        self._penalty = _penalty(len(complete), perturbed=noise is not None)
        self._device = resolve_device(device)
        self._columns = placed(complete.T.astype(np.int64), self._device)
        self._levels = [int(count) for count in levels]
        self.n_variables = len(self._levels)

    def evaluate(self, families: Sequence[Family]) -> FloatVector:
        """Computes the score of every family, shape (F,)."""
        scores = np.empty(len(families))
        for _, index, order in by_size(families):
            most = most_elements(self._device, CHUNK_ELEMENTS, IN_CACHE)
            chunk = max(1, most // max(self._rows, LARGEST_TABLE))
            for start in range(0, len(index), chunk):
                part = order[start : start + chunk]
                scores[index[start : start + chunk]] = self._likelihoods(part) + self._costs(part)
        return scores

    def _likelihoods(self, order: IndexArray) -> FloatVector:
        """Computes minus the log likelihood of every family; parents first, the variable last."""
        configuration = indices(full((len(order), self._rows), 0.0, self._columns))
        size = np.ones(len(order), dtype=np.int64)
        for column in range(order.shape[1] - 1):
            configuration, size = self._joined(configuration, size, order[:, column])
        cells, n_cells = self._joined(configuration, size, order[:, -1])
        parents, both = _log_counts(configuration, size), _log_counts(cells, n_cells)
        scores: FloatVector = parents - both
        if self._noise is None:
            return scores
        most = self._rows * math.log(self._rows)
        log_likelihoods = (counted - most for counted in (parents, both))
        return scores + _family_noise(self._noise, order.shape[1] - 1, *log_likelihoods)

    def _joined(
        self, cells: Array, size: IndexArray, variables: IndexArray
    ) -> tuple[Array, IndexArray]:
        """Extends tables by one variable; large ones are renumbered by the cells that occur."""
        levels = np.array([self._levels[v] for v in variables])
        joined = cells * like(levels, cells)[:, None] + self._columns[like(variables, cells)]
        size = size * levels
        for row in np.flatnonzero(size > LARGEST_TABLE).tolist():
            seen, joined[row] = functions_of(joined).unique(joined[row], return_inverse=True)
            size[row] = len(seen)
        return joined, size

    def _costs(self, order: IndexArray) -> FloatVector:
        free = [
            (self._levels[row[-1]] - 1) * math.prod(self._levels[v] for v in row[:-1])
            for row in order.tolist()
        ]
        return self._penalty * np.array(free, dtype=np.float64)


def _penalty(rows: int, *, perturbed: bool) -> float:
    """Returns the nats per parameter, ln n / 2; rounded if likelihoods are perturbed."""
    exact = 0.5 * math.log(rows)
    return math.ldexp(round(math.ldexp(exact, PENALTY_BITS)), -PENALTY_BITS) if perturbed else exact


def _family_noise(
    noise: Noise, n_parents: int, parents: FloatVector, both: FloatVector
) -> FloatVector:
    """Computes the noise of families' scores from that of likelihoods of sets, shape (F,).

    A graph's score is then a function of perturbed likelihoods, equal for equivalent graphs. The
    likelihood of the empty set has no noise.
    """
    return (noise(parents) if n_parents else 0.0) - noise(both)


def standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standardises columns to mean 0 and variance 1, shape (n, p); a constant column becomes 0."""
    centred = values - values.mean(axis=0)
    deviation = np.sqrt(np.mean(centred**2, axis=0))
    constant = deviation <= SMALLEST_VARIANCE * np.abs(values).max(axis=0)
    return np.where(constant, 0.0, centred / np.where(constant, 1.0, deviation))


def by_size(families: Sequence[Family]) -> Iterable[tuple[int, IndexArray, IndexArray]]:
    """Yields each number of parents, its families' indices, and rows (parents..., variable)."""
    sizes = np.array([parents.bit_count() for _, parents in families], dtype=np.int64)
    for size in np.unique(sizes).tolist():
        index = np.flatnonzero(sizes == size)
        rows = [(*members(families[k][1]), families[k][0]) for k in index.tolist()]
        yield size, index, np.array(rows, dtype=np.int64).reshape(len(index), size + 1)


def _variances(entries: Array) -> Array:
    """Computes each variable's residual variance given earlier ones, (k, B), of correlations."""
    variances, xp = [entries[0, 0]], functions_of(entries)
    for _ in range(len(entries) - 1):
        pivot, row = entries[0, 0], entries[0, 1:]
        # a parent that the others determine explains nothing more
        explains = pivot > SMALLEST_VARIANCE
        coefficient = xp.where(explains, row / xp.where(explains, pivot, 1.0), 0.0)
        entries = entries[1:, 1:] - row[:, None] * coefficient
        variances.append(entries[0, 0])
    return at_least(xp.stack(variances), SMALLEST_VARIANCE)


def _log_counts(cells: Array, size: IndexArray) -> FloatVector:
    """Computes the sum of n ln n over the cells of every table, shape (B,)."""
    xp, start = functions_of(cells), like(np.cumsum(size) - size, cells)
    flat = (cells + start[:, None]).reshape(-1)
    counts = floats(xp.bincount(flat, minlength=int(size.sum())))
    return host(segment_sums(counts * xp.log(at_least(counts, 1.0)), size))
