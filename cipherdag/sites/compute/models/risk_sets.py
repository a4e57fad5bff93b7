"""The rows of a site that are followed up, its partial likelihood, and what each row adds to it.

Source: score residuals, Lin and Wei, JASA 84 (1989) 1074-1078; their sums by patient, Lee, Wei and
Amato, in Survival Analysis: State of the Art (1992), 237-247.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray
from cipherdag.questions.estimation.survival import Survived
from cipherdag.sites.compute.patients import Patients, Repeats

ColumnLookup = Callable[[int], FloatVector]
"""Codes or values of one variable, NaN where missing, shape (rows of the site,)."""

LEAST = 1e-200
"""Of a sum of weights, the largest of which is 1: less is left where a step goes far too far."""


@dataclass(frozen=True, slots=True, eq=False)
class SurvivalRows:
    """The rows of a site with a time, an event indicator, and no missing predictor."""

    time: FloatVector  # at least 0 unless ``impossible``, shape (n,)
    ended: BoolVector  # whether the event ended it, shape (n,)
    rows: BoolVector  # which of the site's rows they are, shape (rows of the site,)
    # whose they are, shape (n,); None where every row is a person
    patients: IndexArray | None = None

    @classmethod
    def of(
        cls, question: Survived, column: ColumnLookup, patients: IndexArray | None = None
    ) -> SurvivalRows:
        """The rows that a question is about; ``patients`` says whose each of the site's rows is."""
        members = (question.time, question.event, *question.complete_in)
        rows = ~np.isnan(np.array([column(v) for v in members])).any(axis=0)
        return cls(
            column(question.time)[rows],
            column(question.event)[rows] == question.code,
            rows,
            None if patients is None else patients[rows],
        )

    @property
    def impossible(self) -> bool:
        """Whether a time lies below 0."""
        return bool((self.time < 0.0).any())

    @property
    def persons_ended(self) -> int:
        """How many persons have the event."""
        if self.patients is None:
            return int(self.ended.sum())
        return len(np.unique(self.patients[self.ended]))

    @property
    def repeats(self) -> Repeats:
        """The rows of patients who have several of them."""
        each = np.arange(len(self.time)) if self.patients is None else self.patients
        return Patients(each).repeats()


@dataclass(frozen=True, slots=True, eq=False)
class RiskSets:
    """The rows of a site, and who is at risk at each event; n rows, d events, k columns."""

    # positions of the rows in the order of time, in which all that follows has them
    order: IndexArray
    design: FloatMatrix  # their columns, shape (n, k)
    ended: BoolVector  # which have the event, shape (n,)
    linear: FloatVector  # logarithms of their hazards, shape (n,)
    weights: FloatVector  # their hazards as shares of the largest, shape (n,)
    # what each adds to all risk sets that it is in, less its share of ties, shape (n,)
    factor: FloatVector
    reached: IndexArray  # how many times of events it is at risk at, shape (n,)
    time: IndexArray  # which of these times every event has, shape (d,)
    taken: FloatVector  # the share of those tied with it that is taken off its risk set, shape (d,)
    total: FloatVector  # sum of weights of its risk set, shape (d,)
    means: FloatMatrix  # mean columns of its risk set, shape (d, k)
    counted: FloatVector  # by what it counts in the derivatives, shape (d,)

    @classmethod
    def of(
        cls,
        rows: SurvivalRows,
        design: FloatMatrix,
        coefficients: FloatVector,
        *,
        efron: bool,
        power: int = 0,
    ) -> RiskSets:
        """The risk sets at coefficients; some row has the event.

        With a ``power`` each event counts in the derivatives by that power of its rank in time,
        from -1/2 to 1/2: those by a change of coefficients with the rank (Grambsch and Therneau,
        Biometrika 81 (1994) 515-526).
        """
        order = np.argsort(rows.time, kind="stable")
        time, ended, design = rows.time[order], rows.ended[order], design[order]
        linear = design @ coefficients
        weights = np.exp(linear - float(linear.max()))
        times, event = np.unique(time[ended], return_inverse=True)
        first = np.searchsorted(time, times, side="left")
        weighted = np.column_stack([weights, weights[:, None] * design])
        at_risk = np.cumsum(weighted[::-1], axis=0)[::-1][first]
        tied = np.zeros_like(at_risk)
        np.add.at(tied, event, weighted[ended])
        ties = np.bincount(event, minlength=len(times))
        # of every event the share of those tied with it that is taken off the risk set
        before = np.arange(len(event)) - np.repeat(np.cumsum(ties) - ties, ties)
        taken = before / ties[event] if efron else np.zeros(len(event))
        sums = at_risk[event] - taken[:, None] * tied[event]
        total = np.maximum(sums[:, 0], LEAST)
        counted = (((np.cumsum(ties) - ties / 2.0) / len(event) - 0.5) ** power)[event]
        risk = np.cumsum(np.bincount(event, counted / total, minlength=len(times)))
        reached = np.searchsorted(times, time, side="right")
        factor = np.where(reached > 0, risk[np.maximum(reached - 1, 0)], 0.0)
        factor[ended] -= np.bincount(event, counted / total * taken, minlength=len(times))[event]
        at_rows = order, design, ended, linear, weights, factor, reached
        return cls(*at_rows, event, taken, total, sums[:, 1:] / total[:, None], counted)

    def likelihood(self) -> tuple[float, FloatVector, FloatMatrix]:
        """Logarithm of a site's partial likelihood, its gradient, and minus its Hessian.

        What a row adds to the sums over all risk sets that it is in is one weight, so that there is
        no matrix per time: with e the mean columns of a risk set, the Hessian is X' diag(q) X - sum
        e e'.
        """
        of_events, largest = self.design[self.ended], float(self.linear.max())
        value = self.linear[self.ended].sum() - np.log(self.total).sum() - largest * len(self.time)
        # one array times itself, where all count alike, gives an exactly symmetric product
        every = (self.counted == 1.0).all()
        weighed = self.means if every else self.means * self.counted[:, None]
        gradient = (of_events * self.counted[:, None]).sum(axis=0) - weighed.sum(axis=0)
        each = (self.factor * self.weights)[:, None] * self.design
        return float(value), gradient, self.design.T @ each - self.means.T @ weighed

    def residuals(self) -> FloatMatrix:
        """What every row adds to the gradient, in the order of the rows themselves, shape (n, k).

        A row with the event has its distance from the mean of its risk set, of those tied the
        average; a row at risk loses, at each event, its distance times its share of the hazard.
        """
        times = int(self.reached.max(initial=0))

        def by_time(each: FloatMatrix) -> FloatMatrix:
            summed = np.zeros((times, each.shape[1]))
            np.add.at(summed, self.time, each)
            return summed

        shares = (self.counted / self.total)[:, None] * self.means
        lost = np.pad(np.cumsum(by_time(shares), axis=0), ((1, 0), (0, 0)))[self.reached]
        lost[self.ended] -= by_time(shares * self.taken[:, None])[self.time]
        terms = self.weights[:, None] * (lost - self.factor[:, None] * self.design)
        ties = np.bincount(self.time, minlength=times)[self.time, None]
        average = by_time(self.means)[self.time] / ties
        terms[self.ended] += self.counted[:, None] * (self.design[self.ended] - average)
        restored = np.empty_like(terms)
        restored[self.order] = terms
        return restored
