"""What would work where small counts at the sites stop an effect: smaller sets, or more rows."""

import math
from collections.abc import Generator, Sequence

import msgspec
import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.arrays import FloatVector
from cipherdag.errors import DataError
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.questions.gather import gather
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import ContributorCounts

USUAL_CELL = 11
"""The ``min_cell_size`` of a policy that names none."""
ALONE = "nothing, which compares the arms as they are"


def too_small(
    scope: EffectSums, facts: Facts, rows: int, why: str
) -> Generator[Question, FloatVector, DataError]:
    """The error of an effect that small counts stop, with what would work, after one round.

    Sites say of which sets they could tell: of each column adjusted for alone, of all but one, and
    of none. Each is what a run with that set would have them say first.
    """
    every = tuple(sorted((*scope.adjust, *scope.complete_in)))
    smaller = {*((v,) for v in every), *(tuple(x for x in every if x != v) for v in every), ()}
    sets = sorted(smaller - {every}, key=len, reverse=True)
    fewer = [msgspec.structs.replace(scope, adjust=one, complete_in=()) for one in sets]
    able = yield from gather([_may_tell(each, facts) for each in fewer])
    sizes = [scope.categories[v] for v in (scope.treatment, scope.outcome, *every)]
    cells = math.prod(max(size, 1) for size in sizes)
    needed, held = USUAL_CELL * cells, rows // facts.present.n_sites
    return DataError(
        f"no effect is estimated: {why}",
        remedy=f"Adjust for {_named(sets, able, facts)}. Or have {USUAL_CELL} rows of each "
        f"combination of categories at every site: {needed:,} rows if all {cells:,} occur, and "
        f"{max(needed - held, 0):,} are missing on average. Where you may see all rows, simulate "
        "with --min-cell-size 1 (Python: Policy(min_cell_size=1)). Another estimator needs the "
        "same.",
    )


def _may_tell(scope: EffectSums, facts: Facts) -> Generator[Question, FloatVector, bool]:
    asked = scope.counted_as
    alone = facts.min_contributors <= 1
    counts = np.rint((yield asked if alone else ContributorCounts(question=asked)))
    enough = counts[1:] >= max(facts.min_contributors, 1)
    return bool(counts[0] == facts.present.n_sites and enough.all())


def _named(sets: Sequence[tuple[int, ...]], able: Sequence[bool], facts: Facts) -> str:
    """The largest sets that all sites may tell of."""
    can = [one for one, works in zip(sets, able, strict=True) if works]
    largest = [one for one in can if len(one) == len(can[0])]
    texts = [", ".join(f"'{facts.names[v]}'" for v in one) or ALONE for one in largest]
    return " or for ".join(texts) or "other columns"
