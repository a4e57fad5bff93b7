"""Gaussian BIC of families from moments of all rows; with these no more is asked of sites.

A correlation matrix swept on k of p variables holds the regressions of all others on these k, and
the residual covariances. A `Regression` keeps of it the rows of its variable and of the k, and the
diagonal; to add or remove a variable takes O(k p) operations.

Source: Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33 (1979).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cipherdag.algorithms.evidence.effects import CORRELATION
from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray
from cipherdag.graphs.dags import Dag, Family, members
from cipherdag.graphs.edge_evidence import EffectSize
from cipherdag.questions.question import Question
from cipherdag.statistics.reproducible import exponential_of, logarithm, logarithm_of

BITS = 16
"""Scores are in 2**-16 nats, which hides rounding that depends on the split of rows over sites."""
SHARE_BITS = 36
"""Candidates whose shares round to the same multiple of 2**-36 of the residual variance tie."""


@dataclass(slots=True)
class Fit:
    """A family, and the steps from it that raise the score; the last fields are set when needed."""

    parents: int  # bit mask of the parents
    better: int  # bit mask of the candidates, which would raise the score as one more parent
    variance: float  # of the variable given its parents
    candidates: IndexArray  # their positions, ascending
    shares: FloatVector  # variance that each candidate would explain
    swept: IndexArray  # the parents that the others do not determine
    losses: FloatVector  # minus the variance that each of ``swept`` alone explains
    best: tuple[int, ...] | None = None  # the candidates, best first, once ranked
    score: int | None = None  # of the family, once settled
    worst: int = -1  # the parent without which the score is highest, if higher; set with ``score``


class MomentScores:
    """`FamilyScores` -(n / 2) ln s2(v | parents) - c |parents|, in 2**-16 nats: "the grid".

    The cost c of a parent is penalty (ln n / 2) + per_parent, and s2 the share of the variance that
    parents leave. A variable that does not vary, whose correlations are NaN, has s2 = 1 and
    explains nothing, and so does one that the parents determine. Of rows there is one less for
    every site if each subtracted its own means.

    Attributes:
        correlations: Of all rows, shape (p, p); 0 at variables that do not vary, 1 on the diagonal.
        least: The smallest gain for which a step is taken, on the grid.
        most_lost: Most that the score may fall while a variable is moved to a better position: 6 ln
            n nats, or n / 100 if that is more, on the grid.
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
        log_rows = logarithm_of(max(rows, 1))
        self.n_variables = len(correlations)
        self.bits = BITS
        self.tally: dict[str, int] = {}
        self.least = 1 << (BITS - 10)
        self.most_lost = round(math.ldexp(max(6.0 * log_rows, 0.01 * rows), BITS))
        self.correlations = np.where(np.isnan(correlations), 0.0, correlations)
        np.fill_diagonal(self.correlations, 1.0)
        self.rows = rows
        self._half_rows = 0.5 * rows
        self._cost = 0.5 * penalty * log_rows + per_parent
        self._max_parents = max_parents
        self._known: dict[Family, int] = {}
        # shares of residual variance: the least that adds a parent, the most that removes one
        least, half_rows = math.ldexp(self.least, -BITS), max(self._half_rows, 0.5)
        self._gaining = 1.0 - exponential_of(-(self._cost + least) / half_rows)
        self._losing = exponential_of((self._cost - least) / half_rows) - 1.0

    def regression(self, v: int, given: int = 0, near: Regression | None = None) -> Regression:
        """The regression of v on ``given``, made from the regression ``near`` if there is one."""
        start = Regression.alone(self.correlations, v) if near is None else near
        return start.on(self.correlations, v, given)

    def score(self, v: int, parents: int) -> int:
        """See `FamilyScores.score`; never None."""
        if (v, parents) not in self._known:
            self._known[v, parents] = round(math.ldexp(self.exact(v, parents), BITS))
        return self._known[v, parents]

    def exact(self, v: int, parents: int) -> float:
        """The score in nats."""
        return self._of(float(self.regression(v, parents).covariances[v]), parents.bit_count())

    def grown(self, v: int, parents: int) -> list[tuple[int, int]]:
        """See `FamilyScores.grown`; never None."""
        free = np.ones(self.n_variables, dtype=bool)
        free[v] = False
        fit = self.fit(self.regression(v, parents), v, free)
        left = np.maximum(fit.variance - fit.shares, LEAST_VARIANCE)
        exact = -self._half_rows * logarithm(left) - self._cost * (parents.bit_count() + 1)
        scores = np.rint(np.ldexp(exact, BITS)).astype(np.int64)
        return list(zip(scores.tolist(), fit.candidates.tolist(), strict=True))

    def fit(self, regression: Regression, v: int, free: BoolVector) -> Fit:
        """The family of v, and which ``free`` variables, shape (p,), would raise its score."""
        parents, variance = regression.given, regression.covariances.item(v)
        shares = self._shares(regression)
        if variance > LEAST_VARIANCE and parents.bit_count() < self._max_parents:
            better = shares >= self._gaining * variance
            better &= free
        else:
            better = np.zeros(self.n_variables, dtype=bool)
        mask = int.from_bytes(np.packbits(better, bitorder="little").tobytes(), "little")
        (candidates,), swept = better.nonzero(), regression.swept
        return Fit(parents, mask, variance, candidates, shares[candidates], swept, shares[swept])

    def ranked(self, fit: Fit) -> tuple[int, ...]:
        """The candidates of a family, best first, ties by position."""
        if fit.best is None:
            steps = np.rint(fit.shares * (-math.ldexp(1.0, SHARE_BITS) / fit.variance))
            fit.best = tuple(fit.candidates[steps.argsort(kind="stable")].tolist())
        return fit.best

    def settled(self, fit: Fit, required: int) -> int:
        """The score of a family; sets ``fit.worst``, the worst parent that is not required."""
        if fit.score is None:
            variance, size = max(fit.variance, LEAST_VARIANCE), fit.parents.bit_count()
            fit.score = round(math.ldexp(self._of(variance, size), BITS))
            losses, bearable = fit.losses.tolist(), self._losing * variance
            if len(losses) < size or (losses and -max(losses) <= bearable):
                # a parent that the others determine explains nothing
                lost = dict.fromkeys(members(fit.parents), 0.0)
                lost |= {u: -loss for u, loss in zip(fit.swept.tolist(), losses, strict=True)}
                free = ((loss, u) for u, loss in lost.items() if not required >> u & 1)
                least, worst = min(free, default=(0.0, -1))
                fit.worst = worst if least <= bearable else -1
        return fit.score

    def _of(self, variance: float, size: int) -> float:
        """The score of a family of ``size`` parents that leave this variance."""
        return -self._half_rows * logarithm_of(max(variance, LEAST_VARIANCE)) - self._cost * size

    def _shares(self, regression: Regression) -> FloatVector:
        """The variance that each variable would explain; of parents minus what they do explain."""
        squares = regression.covariances * regression.covariances
        varies = np.abs(regression.variances) > LEAST_VARIANCE
        return np.divide(squares, regression.variances, out=np.zeros(len(squares)), where=varies)

    def effect(self, u: int, v: int, given: int) -> EffectSize | None:
        """The partial correlation of two variables given others; None where there is none.

        It has no interval: the search took the edge because it is large in these very rows.
        """
        regression = self.regression(v, given)
        left, variance = float(regression.variances[u]), float(regression.covariances[v])
        spread = 2.0 * self._half_rows - given.bit_count() - 3.0
        if min(left, variance) <= LEAST_VARIANCE or spread <= 0.0:
            return None
        correlation = float(regression.covariances[u]) / math.sqrt(left * variance)
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

    def near_order(self, required: Sequence[int]) -> list[int]:
        """An order: next, if its required parents are in it, the one with least variance left."""
        left, before = self.correlations, 0
        order: list[int] = []
        while len(order) < self.n_variables:
            waiting = [
                v
                for v in range(self.n_variables)
                if not before >> v & 1 and not required[v] & ~before
            ]
            v = waiting[int(left.diagonal()[waiting].argmin())]
            order.append(v)
            before |= 1 << v
            row = left[v]
            if row[v] > LEAST_VARIANCE:
                left = left - row[:, None] * (row / row[v])
        return order


LEAST_VARIANCE = 1e-10
"""A standardised variable with at most this variance given others is determined by them."""


@dataclass(slots=True)
class Regression:
    """A variable regressed on others.

    Attributes:
        given: Bit mask of the others.
        swept: The others that were swept on: not determined by those before them, shape (k,).
        rows: Rows of the swept matrix, shape (k + 1, p): first the variable's covariances with all,
            given the others, then the rows of ``swept``. Columns of ``swept`` hold coefficients,
            and in the rows of ``swept`` minus the inverse of their correlation matrix.
        variances: The diagonal of the swept matrix, shape (p,): variances given the others; for
            ``swept`` minus the diagonal of the inverse.
    """

    given: int
    swept: IndexArray
    rows: FloatMatrix
    variances: FloatVector

    @classmethod
    def alone(cls, matrix: FloatMatrix, v: int) -> Regression:
        """Regress variable v on no other variable."""
        return cls(0, np.empty(0, dtype=np.intp), matrix[v : v + 1], np.ones(len(matrix)))

    @property
    def covariances(self) -> FloatVector:
        """Of the variable with all, given the others, shape (p,)."""
        return self.rows[0]

    def on(self, matrix: FloatMatrix, v: int, given: int) -> Regression:
        """Regress the same variable v on the variables of the mask ``given``."""
        regression = self
        lost = self.given & ~given
        if lost and len(self.swept) < self.given.bit_count():
            # variables that a lost one determined now have to be swept on
            regression, lost = Regression.alone(matrix, v), 0
        for s in members(lost):
            regression = regression.reduced(s)
        for u in members(given & ~regression.given):
            regression = regression.extended(matrix, u)
        return regression

    def extended(self, matrix: FloatMatrix, u: int) -> Regression:
        """Regress on one more variable, u."""
        row, k, coefficients = matrix[u], len(self.swept), self.rows[:, u]
        if k:
            # one row after the other, so that every processor rounds alike
            row = row - np.add.reduce(row[self.swept][:, None] * self.rows[1:])
            row[self.swept] = coefficients[1:]
        pivot, given = row.item(u), self.given | 1 << u
        if not pivot > LEAST_VARIANCE:
            return Regression(given, self.swept, self.rows, self.variances)
        scaled = row / pivot
        rows, swept = np.empty((k + 2, len(row))), np.empty(k + 1, dtype=np.intp)
        others = rows[:-1]
        np.multiply(coefficients[:, None], scaled, out=others)
        np.subtract(self.rows, others, out=others)
        np.divide(coefficients, pivot, out=others[:, u])
        rows[-1], rows[-1, u] = scaled, -1.0 / pivot
        swept[:k], swept[k] = self.swept, u
        variances = self.variances - scaled * row
        variances[u] = -1.0 / pivot
        return Regression(given, swept, rows, variances)

    def reduced(self, s: int) -> Regression:
        """Regress without the variable s, which was swept on."""
        left = self.swept != s
        row = self.rows[1 + left.argmin()]
        pivot = row.item(s)
        scaled = row / pivot
        rows = self.rows[np.concatenate(((True,), left))]
        coefficients = rows[:, s].copy()
        rows -= coefficients[:, None] * scaled
        rows[:, s] = -coefficients / pivot
        variances = self.variances - scaled * row
        variances[s] = -1.0 / pivot
        return Regression(self.given ^ 1 << s, self.swept[left], rows, variances)
