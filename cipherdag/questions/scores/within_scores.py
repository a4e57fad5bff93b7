"""Score tests within the sites, of categories and numbers together.

Every site fits x or y given S by itself, and asks how much the other one would still explain: the
derivative of its likelihood there, which adds up over sites, and how widely that varies where x and
y are independent given S. All that is a nuisance stays the site's own: levels, slopes and spreads.

Source: Rao, Mathematical Proceedings of the Cambridge Philosophical Society 44 (1948) 50-57;
Agresti, Categorical Data Analysis, section 5.2 (Cochran, Mantel and Haenszel's as a score test).

Leaks:
    Every site and whoever carries the messages see which triplets are tested, by position. The
    coordinator sees the sums over the sites that `WithinScores` lists, per triplet.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np

from cipherdag.questions.encodings import (
    BoolVector,
    Encoding,
    FloatVector,
    IndexArray,
    PositionRows,
    segments,
    unpack_blocks,
)
from cipherdag.questions.pooled_data import check_categories
from cipherdag.questions.regression_steps import (
    Regression,
    check_ordered,
    outputs,
    predictor_columns,
    too_large,
)
from cipherdag.questions.weighted_evidence import check_triplets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

VARIANCE_BITS = 4
"""Of the grid of covariances: given nothing they follow from whole numbers of rows, and on a fine
grid two sums have one solution, which is every site's counts."""


class WithinScores(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True, tag="within-scores"
):
    """How much does y say of x, beyond S, at every site?

    Of x and y the response is the one that `tested_model` says, the other variable z; a number z is
    divided by its standard deviation at the site. Per triplet: U, the score of every coefficient of
    z where the response depends on S alone, and its covariances. With one coefficient and a linear
    response U is r n' times the standard deviation of U / n', n' the rows less the coefficients of
    S and r the partial correlation.

    Leaks:
        The coordinator learns, per triplet, the sums over the sites of the scores, of their
        covariances, and of the rows less coefficients of the sites that do the test. Given nothing,
        a covariance follows from the rows of a site and of its categories; to a sixteenth, and
        blurred as those of `StratifiedTables` are, scores too, it tells about how large these are.

    Attributes:
        categories: Number of categories of every variable, 0 for a continuous one, shape (p,).
        counts: How many triplets have |S| = 0, 1, 2, ...
        members: Packed positions as in `WeightedEvidence`.
        max_rows: Declared bound of a site's rows.
        ordered: Positions of the variables with three or more categories in an order, ascending.
        interactions: Whether the variables of S interact.
    """

    leaves: ClassVar[str] = "how far variables are from independence within sites"

    categories: tuple[int, ...]
    counts: tuple[int, ...]
    members: bytes
    max_rows: int = 1 << 20
    ordered: tuple[int, ...] = ()
    interactions: bool = False

    def __post_init__(self) -> None:
        check_categories(self.categories, self.max_rows)
        check_ordered(self.ordered, self.categories)
        check_triplets(self.counts, self.members, len(self.categories), self.max_rows)

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"scores of {sum(self.counts)} tests, |S| <= {len(self.counts) - 1}"

    def rows(self) -> list[PositionRows]:
        """The triplets by size of S, as `WeightedEvidence.rows` yields them."""
        return unpack_blocks(self.counts, self.members, narrowest=2)

    @cached_property
    def models(self) -> list[Regression]:
        """The model of every triplet, whose last predictor is z."""
        ordered = frozenset(self.ordered)
        return [
            tested_model(row, self.categories, ordered, interactions=self.interactions)
            for block in self.rows()
            for row in block.tolist()
        ]

    @cached_property
    def sides(self) -> IndexArray:
        """How many scores every triplet has, shape (B,); 0 where it has too many coefficients."""
        found = [score_count(model, self.categories) for model in self.models]
        return np.array(found, dtype=np.int64)

    @property
    def owner(self) -> IndexArray:
        """The triplet of every score, shape (K,)."""
        return np.repeat(np.arange(len(self.sides)), self.sides)

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Scores; upper triangles of covariances, row by row; rows less coefficients, 0: not done.

        A score is at most the rows, and so is a variance.
        """
        triangles = int((self.sides * (self.sides + 1) // 2).sum())
        rows, scores = float(self.max_rows), len(self.owner)
        return (
            Encoding(length=scores, bound=rows, resolution_bits=VARIANCE_BITS, signed=True),
            Encoding(length=triangles, bound=rows, resolution_bits=VARIANCE_BITS, signed=True),
            Encoding(length=len(self.sides), bound=rows),
        )

    def where(self, tests: BoolVector) -> BoolVector:
        """Which values of an answer are about these tests, shape (values,)."""
        triangles = self.sides * (self.sides + 1) // 2
        return np.concatenate([np.repeat(tests, self.sides), np.repeat(tests, triangles), tests])

    def moments(self, answer: FloatVector) -> tuple[FloatVector, FloatVector]:
        """The scores and their variances, shape (K,) each."""
        scores, triangles, _ = segments(self.encodings, answer)
        sides = self.sides[self.owner]
        row = np.arange(len(sides)) - np.repeat(np.cumsum(self.sides) - self.sides, self.sides)
        sizes = self.sides * (self.sides + 1) // 2
        starts = np.repeat(np.cumsum(sizes) - sizes, self.sides)
        return scores, triangles[starts + row * sides - row * (row - 1) // 2]

    @property
    def moment_encodings(self) -> tuple[Encoding, Encoding]:
        """Those of `moments`."""
        scores, triangles, _ = self.encodings
        return scores, msgspec.structs.replace(triangles, length=scores.length, signed=False)


def tested_model(
    row: Sequence[int], categories: Sequence[int], ordered: AbstractSet[int], *, interactions: bool
) -> Regression:
    """The regression of x or y on S and on the other one, its last predictor.

    The response is the one whose three or more categories are in an order (of two the one with more
    categories, which leaves fewer degrees of freedom), then the one with fewer categories, a
    continuous one last; the first if that does not decide.

    Args:
        row: x, y, s1, ..., sl.
        categories: Number of categories of every variable, 0 for a continuous one.
        ordered: Variables with three or more categories in an order.
        interactions: Whether the variables of S interact; see `Regression`.
    """

    def rank(variable: int) -> tuple[int, int]:
        count = categories[variable]
        return (0, -count) if variable in ordered else (1 if count else 2, count)

    x, y, *given = row
    response, other = (y, x) if rank(y) < rank(x) else (x, y)
    crossed = len(given) if interactions else 0
    return Regression(response, (*given, other), (), response in ordered, crossed)


def score_count(model: Regression, categories: Sequence[int]) -> int:
    """Coefficients of the last predictor of a model; 0 where no site fits it."""
    if too_large(model, categories):
        return 0
    columns = predictor_columns(categories[model.predictors[-1]])
    return columns * (1 if model.ordered else outputs(categories[model.response]))
