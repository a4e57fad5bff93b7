"""Steps of Cox models over all sites: partial likelihoods, gradients and Hessians.

Leaks:
    Every site and whoever carries the messages see the columns, by position, and the coefficients
    so far. The coordinator sees the sums that each question lists, where enough sites tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec
import numpy as np

from cipherdag.arrays import BoolVector, FloatVector
from cipherdag.questions.encodings import Encoding
from cipherdag.questions.pooled_data import LARGEST_DEVIATION, MOMENT_BITS, OnScales
from cipherdag.questions.regression_steps import step_length
from cipherdag.questions.survival.counts import Survived, check_edges

MOST_COLUMNS = 256
LARGEST_COEFFICIENT = 64.0
"""Of one common unit: beyond, a ratio of hazards is no number that a table holds."""


class HazardSteps(OnScales, Survived, frozen=True, kw_only=True, tag="hazard-steps"):
    """How good are these coefficients of a Cox model, and which way are better ones?

    A row's hazard is that of its site times the exponential of a linear combination: of continuous
    predictors in common units from common origins, and of an indicator of every category but 0 of a
    discrete one. The site's own hazard is any function of time. With m coefficients the answer has
    the logarithm of the site's partial likelihood, its gradient, and minus its Hessian's upper
    triangle by rows, at the site's own times and not in bins; whether the site tells them; and then
    whether it has rows of every category of the predictors, and of every two, an upper triangle by
    rows: what a site alone has, gradient and Hessian tell of it alone.

    A site that restricts small counts tells nothing where a table of two among the event, whose
    counts by category the gradient has, and discrete predictors, whose counts the Hessian is made
    of, has a count below its ``min_cell_size``, but for 0.

    Leaks:
        The coordinator learns these sums over the sites.

    Attributes:
        predictors: Positions, in the order of the coefficients.
        origins: Packed 64-bit floats: what is taken off each predictor; not used of a discrete one.
        units: Packed binary exponents that it is then divided by, likewise.
        coefficients: Packed 64-bit floats.
        efron: Whether ties are taken as Efron does, or as Breslow.
    """

    leaves: ClassVar[str] = "partial likelihoods, gradients and Hessians of Cox models"

    predictors: tuple[int, ...]
    origins: bytes
    units: bytes
    coefficients: bytes
    efron: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if len({*self.predictors}) != len(self.predictors) or not self.predictors:
            raise ValueError("a model has predictors, each once")
        if not {*self.predictors} <= {*self.complete_in}:
            raise ValueError("predictors must leave rows out, too")
        if not len(self.origins) == len(self.units) == 8 * len(self.predictors):
            raise ValueError("origins and units must be as many as predictors")
        self.check_scales()
        if not 1 <= self.n_columns <= MOST_COLUMNS:
            raise ValueError(f"a model must have 1 to {MOST_COLUMNS} coefficients")
        if len(self.coefficients) != 8 * self.n_columns:
            raise ValueError("there must be one coefficient for every column")
        if not (abs(self.coefficient_array()) <= LARGEST_COEFFICIENT).all():
            raise ValueError(f"coefficients must lie within {LARGEST_COEFFICIENT:g}")

    @property
    def n_columns(self) -> int:
        """How many coefficients there are, m."""
        return column_count(self.predictors, self.categories)

    def coefficient_array(self) -> FloatVector:
        """The coefficients, shape (m,)."""
        return np.frombuffer(self.coefficients, dtype="<f8").astype(np.float64)

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"a step of a Cox model of {self.n_columns} coefficients"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """The step on the grid of `Moments`, and what it is told of."""
        return self.on_grid(step_length(self.n_columns)), self.told

    @property
    def indicated(self) -> tuple[tuple[int, int], ...]:
        """Position and code of every category of the predictors that have two at least."""
        discrete = [v for v in self.predictors if self.categories[v] > 1]
        return tuple((v, code) for v in discrete for code in range(self.categories[v]))

    @property
    def told(self) -> Encoding:
        """Whether the site tells anything, and has rows of every category and of every two."""
        count = len(self.indicated)
        return Encoding(length=1 + count * (count + 1) // 2, bound=1.0)

    def on_grid(self, length: int) -> Encoding:
        """So many values on the grid of `Moments`."""
        bits = MOMENT_BITS - math.ceil(math.log2(self.max_rows))
        bound = float(self.max_rows) * LARGEST_DEVIATION**2
        return Encoding(length=length, bound=bound, resolution_bits=bits, signed=True)

    def where(self, chosen: BoolVector) -> BoolVector:
        """All values of an answer, if enough sites tell; shape (number of values,)."""
        return np.full(sum(encoding.length for encoding in self.encodings), bool(chosen[0]))


class HazardSums(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="hazard-sums"):
    """What does each bin of time add to the partial likelihood of all sites' rows together?

    The hazard is one function of time for all sites; times are those of their bins, as in
    `SurvivalCounts`. The answer has, bin by bin, the events; of each predictor's column the sum
    over all events; then bin by bin, with w the exponential of a row's linear combination and x its
    columns, the sums of w, of w x, and of w x x' (upper triangle by rows) over the rows at risk,
    and the same over the rows with the event there; and what `HazardSteps` has of the categories.

    A site that restricts small counts tells nothing: from the sums of adjacent bins follow those of
    the rows that end between them, category by category.

    Leaks:
        The coordinator learns these sums over the sites: of the rows that end in each bin, how many
        have each category of each predictor, means and squares of numbers, and, as coefficients
        move, about how they are distributed; of few rows, each one's values.

    Attributes:
        model: The rows, predictors and coefficients.
        edges: Packed 64-bit floats above 0, ascending.
    """

    leaves: ClassVar[str] = "sums over rows at risk in public bins of time, for Cox models"

    model: HazardSteps
    edges: bytes

    def __post_init__(self) -> None:
        check_edges(self.edges)

    def edge_array(self) -> FloatVector:
        """The upper edge of every bin, shape (B,)."""
        return np.frombuffer(self.edges, dtype="<f8").astype(np.float64)

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"{self.model.label}, in {len(self.edges) // 8} bins"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Events, their columns, sums by bin, and what they are told of."""
        bins, columns = len(self.edges) // 8, self.model.n_columns
        return (
            Encoding(length=bins, bound=float(self.model.max_rows)),
            self.model.on_grid(columns + 2 * bins * step_length(columns)),
            self.model.told,
        )

    def where(self, chosen: BoolVector) -> BoolVector:
        """All values of an answer, if enough sites tell; shape (number of values,)."""
        return np.full(sum(encoding.length for encoding in self.encodings), bool(chosen[0]))


def column_count(predictors: Sequence[int], categories: Sequence[int]) -> int:
    """Coefficients of a Cox model."""
    return sum(max(categories[v] - 1, 0) if categories[v] else 1 for v in predictors)
