"""Gaussian BIC of families from moments of all rows; no round once they are open.

Leaks:
    Nothing beyond the moments.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable

import numpy as np

from cipherdag.algorithms.evidence.effects import CORRELATION
from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.graphs.dags import Dag, Family, members
from cipherdag.graphs.edge_evidence import EffectSize
from cipherdag.questions.question import Question
from cipherdag.statistics.reproducible import logarithm, logarithm_of

BITS = 16
"""Of a nat: rounding of moments, which differs with how rows are split over sites, is gone."""
LEAST_VARIANCE = 1e-10
"""Of a standardised variable, given others that determine it."""


class MomentScores:
    """Scores -(n / 2) ln s2(v | parents) - c |parents|, in 2**-16 nats.

    The cost c of a parent is penalty (ln n / 2) + per_parent, and s2 the residual variance over the
    variable's own. A variable that does not vary has s2 = 1 and explains nothing, and so does one
    that the parents determine.

    Args:
        correlations: Of all rows, shape (p, p); NaN at variables that do not vary.
        rows: How many there are, less the means that were taken off beside one.
        penalty: How many times ln(n) / 2 a parent costs.
        per_parent: What a structure prior takes besides for every parent, in nats.
        max_parents: Most parents that grow.
    """

    def __init__(
        self,
        correlations: FloatVector,
        rows: int,
        *,
        penalty: float,
        per_parent: float = 0.0,
        max_parents: int,
    ) -> None:
        self.n_variables = len(correlations)
        self.bits = BITS
        self.tally: dict[str, int] = {}
        self.least = 1 << (BITS - 10)
        self._matrix = np.where(np.isnan(correlations), 0.0, correlations)
        np.fill_diagonal(self._matrix, 1.0)
        self._half_rows = 0.5 * rows
        self._cost = 0.5 * penalty * logarithm_of(max(rows, 1)) + per_parent
        self._max_parents = max_parents
        self._known: dict[Family, int] = {}

    def score(self, v: int, parents: int) -> int:
        """See `FamilyScores.score`; never None."""
        if (v, parents) not in self._known:
            self._known[v, parents] = int(self._scores(v, parents, np.array([v]))[0])
        return self._known[v, parents]

    def grown(self, v: int, parents: int) -> list[tuple[int, int]]:
        """See `FamilyScores.grown`; never None."""
        if parents.bit_count() >= self._max_parents:
            return []
        free = ((1 << self.n_variables) - 1) & ~parents & ~(1 << v)
        others = np.array([*members(free)], dtype=np.int64)
        if not len(others):
            return []
        scores = self._scores(v, parents, others)
        better = scores > self.score(v, parents)
        return list(zip(scores[better].tolist(), others[better].tolist(), strict=True))

    def effect(self, u: int, v: int, given: int) -> EffectSize | None:
        """The partial correlation of two variables given others; None where there is none.

        It has no interval: the search took the edge because it is large in these very rows.
        """
        covariances, left = self._residuals(v, given)
        spread = 2.0 * self._half_rows - given.bit_count() - 3.0
        if min(left[u], covariances[v]) <= LEAST_VARIANCE or spread <= 0.0:
            return None
        correlation = covariances[u] / math.sqrt(left[u] * covariances[v])
        if abs(correlation) >= 1.0:
            return None
        return EffectSize(CORRELATION, correlation, None, None)

    def effects(self, dag: Dag) -> dict[tuple[int, int], EffectSize]:
        """Of every edge (cause, effect) its `effect` given the other parents, if there is one."""
        effects = {
            (u, v): self.effect(u, v, parents & ~(1 << u))
            for v, parents in enumerate(dag)
            for u in members(parents)
        }
        return {edge: effect for edge, effect in effects.items() if effect is not None}

    def learn(self, nodes: Iterable[Family]) -> Generator[Question, FloatVector, None]:
        """See `FamilyScores.learn`; nothing is missing."""
        del nodes
        yield from ()

    def exact(self, v: int, parents: int, others: IndexArray) -> FloatVector:
        """Scores in nats, with each of the others as one parent more; v itself stands for none."""
        covariances, left = self._residuals(v, parents)
        variance, covariance = left[others], covariances[others]
        varies = (variance > LEAST_VARIANCE) & (others != v)
        share = np.divide(covariance**2, variance, out=np.zeros(len(others)), where=varies)
        rest = np.maximum(covariances[v] - share, LEAST_VARIANCE)
        size = parents.bit_count() + (others != v)
        return -self._half_rows * logarithm(rest) - self._cost * size

    def _scores(self, v: int, parents: int, others: IndexArray) -> IndexArray:
        """The same on the grid."""
        return np.rint(np.ldexp(self.exact(v, parents, others), BITS)).astype(np.int64)

    def _residuals(self, v: int, parents: int) -> tuple[FloatVector, FloatVector]:
        """Covariances of v with all, and variances of all, given the parents; shape (p,) each."""
        covariances, left = self._matrix[v].copy(), np.ones(self.n_variables)
        rows: list[tuple[FloatVector, float]] = []
        for s in members(parents):
            row = self._matrix[s]
            for earlier, variance in rows:
                row = row - earlier * (earlier[s] / variance)
            variance = float(row[s])
            if not variance > LEAST_VARIANCE:
                continue
            rows.append((row, variance))
            covariances = covariances - row * (covariances[s] / variance)
            left = left - row * row / variance
        return covariances, left
