"""Regressions over all sites: sums of likelihoods, gradients and Hessians at given coefficients."""

import itertools
from functools import cached_property

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.disclosure import Quantity, sums
from cipherdag.questions.encodings import Encoding, OnScales, moment_encoding, unpack_floats
from cipherdag.questions.pooled_data import FEWEST_ORDERED, check_categories
from cipherdag.questions.question import Question
from cipherdag.statistics.regression_models import MAX_COEFFICIENTS, Regression, coefficient_count


class RegressionSteps(OnScales, Question, frozen=True, dict=True, tag="regression-steps"):
    """Asks for the log likelihood, gradient and Hessian of regressions at given coefficients.

    A continuous response is linear in the predictors, one with c categories has c - 1 logits
    against its category 0 (two categories: logistic regression). A model has a constant, a column
    per continuous predictor in the common unit, and an indicator of every category but 0 of a
    discrete one, ordered or not; predictors that interact also have the products of their
    indicators, and of those with their continuous columns. A response in an order has c - 1 rising
    thresholds, infinite where nothing lies beyond, instead of a constant, and then one coefficient
    per column (`thresholds`). With m coefficients, output by output, a model has
    1 + m + m (m + 1) / 2 values:

    - discrete response: log likelihood, gradient, and minus its Hessian's upper triangle by rows;
    - continuous response: sums of y y, of x y and of x x'; the coefficients are not used.

    With ``site_effect`` every site has intercepts or thresholds of its own, which it profiles out
    before it answers (`sites.compute.models`); those among ``coefficients`` are not used.

    Leaks:
        With indicators the sums contain counts of single categories and of pairs, as a table of two
        variables does; with interactions, the counts of a table of all of them.
    """

    discloses = sums(Quantity.REGRESSIONS)
    resamplable = True
    opt_in = True

    categories: tuple[int, ...]
    origins: bytes  # packed 64-bit floats: what is taken off each continuous column, shape (p,)
    units: bytes  # packed binary exponents that it is then divided by, shape (p,)
    # packed 16-bit numbers of every model: of predictors, of further variables (rows must be
    # complete in them, too), and of predictors that interact
    lengths: bytes
    # packed 16-bit positions of every model: response, predictors, further variables
    members: bytes
    coefficients: bytes  # packed 64-bit floats of all models
    max_rows: int = 1 << 20
    site_effect: bool = False  # whether every site has constants of its own
    # positions of the variables with three or more categories in an order, ascending
    ordered: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        p = len(self.categories)
        check_categories(self.categories, self.max_rows)
        if len(self.origins) != 8 * p or len(self.units) != 8 * p or len(self.lengths) % 6:
            raise ValueError("origins, units or lengths do not have the length of the study")
        self.check_scales()
        check_ordered(self.ordered, self.categories)
        self._check_members()
        if max(self.coefficient_counts, default=0) > MAX_COEFFICIENTS:
            raise ValueError(f"a model must have at most {MAX_COEFFICIENTS} coefficients")
        if len(self.coefficients) != 8 * sum(self.coefficient_counts):
            raise ValueError("the packed coefficients do not have the length of the models")
        self._check_coefficients()

    def _check_coefficients(self) -> None:
        values, start = self.coefficient_array(), 0
        for model, count in zip(self.models, self.coefficient_counts, strict=True):
            coefficients = values[start : start + count]
            start += count
            if model.ordered:
                thresholds, coefficients = np.split(
                    coefficients, [self.categories[model.response] - 1]
                )
                # not a number does not rise either
                if not (thresholds[1:] >= thresholds[:-1]).all():
                    raise ValueError("the thresholds of an ordered response must not fall")
            if not np.isfinite(coefficients).all():
                raise ValueError("coefficients must be finite")

    def _check_members(self) -> None:
        sizes = self._sizes()
        if len(self.members) != 2 * int((1 + sizes[:, :2].sum(axis=1)).sum()):
            raise ValueError("the packed models do not have the length that lengths implies")
        if (sizes[:, 2] > sizes[:, 0]).any():
            raise ValueError("more predictors interact than a model has")
        members = np.frombuffer(self.members, dtype="<u2")
        if members.size and int(members.max()) >= len(self.categories):
            raise ValueError("a position lies beyond the variables")
        for model in self.models:
            if len({model.response, *model.predictors}) != 1 + len(model.predictors):
                raise ValueError("a model names one variable twice")

    @cached_property
    def models(self) -> tuple[Regression, ...]:
        """The models in order."""
        members = np.frombuffer(self.members, dtype="<u2").tolist()
        ordered = frozenset(self.ordered)
        models, start = [], 0
        for count, more, crossed in self._sizes().tolist():
            middle, end = start + 1 + count, start + 1 + count + more
            predictors, further = members[start + 1 : middle], members[middle:end]
            in_order = members[start] in ordered
            models.append(
                Regression(members[start], tuple(predictors), tuple(further), in_order, crossed)
            )
            start = end
        return tuple(models)

    def _sizes(self) -> IndexArray:
        """Predictors, further variables and predictors that interact, by model, shape (M, 3)."""
        return np.frombuffer(self.lengths, dtype="<u2").reshape(-1, 3).astype(np.int64)

    @cached_property
    def coefficient_counts(self) -> tuple[int, ...]:
        """Number of coefficients of every model."""
        return tuple(coefficient_count(model, self.categories) for model in self.models)

    def coefficient_array(self) -> FloatVector:
        """The coefficients of all models, one model after the other."""
        return unpack_floats(self.coefficients)

    @property
    def label(self) -> str:
        return f"a step of {len(self.lengths) // 6} regressions"

    def fits(self, categories: tuple[int, ...], ordered: tuple[int, ...]) -> bool:
        return (self.categories, self.ordered) == (categories, ordered)

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """All values of all models, on the grid of `Moments`."""
        length = sum(values_per_step(count) for count in self.coefficient_counts)
        return (moment_encoding(length, self.max_rows, self.discloses),)


def check_ordered(ordered: tuple[int, ...], categories: tuple[int, ...]) -> None:
    """Raise ValueError unless these are ascending positions of three or more categories."""
    rising = all(low < high for low, high in itertools.pairwise(ordered))
    inside = all(0 <= v < len(categories) for v in ordered)
    if not rising or not inside or any(categories[v] < FEWEST_ORDERED for v in ordered):
        raise ValueError("ordered variables must be ascending positions of 3 categories or more")


def values_per_step(count: int) -> int:
    """Number of values in the answer for a model with ``count`` coefficients."""
    return 1 + count + count * (count + 1) // 2


def pack_models(models: list[Regression]) -> tuple[bytes, bytes]:
    """Pack models into the ``lengths`` and ``members`` of a `RegressionSteps`."""
    lengths = [(len(m.predictors), len(m.complete_in), m.crossed) for m in models]
    members = [v for m in models for v in (m.response, *m.predictors, *m.complete_in)]
    return np.array(lengths, dtype="<u2").tobytes(), np.array(members, dtype="<u2").tobytes()
