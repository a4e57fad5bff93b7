"""Whether rows that miss a value, which no effect is estimated from, differ from the others.

Leaks:
    How many sites have rows of both kinds, and if enough have, one sum and its variance of the
    treatment, and of the outcome.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Literal

import msgspec

from cipherdag.arrays import FloatVector
from cipherdag.findings.effect import LeftOut
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.questions.pooled_data import ColumnKinds
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import sum_with_threshold

OF: tuple[Literal["treatment", "outcome"], ...] = ("treatment", "outcome")


def left_out(
    scope: EffectSums, kinds: ColumnKinds, fewest: int
) -> Generator[Question, FloatVector, tuple[LeftOut, ...]]:
    """What the rows left out of an effect differ in; nothing of what too few sites tell.

    Args:
        scope: Whose rows they are left out of.
        kinds: The columns: where none misses a value, nothing is asked, if that is told.
        fewest: How many sites have to tell.
    """
    if not (kinds.restricted or kinds.incomplete[[*scope.named]].any()):
        return ()
    asked = msgspec.structs.replace(scope, stage="missing")
    away, variance, rows, sites = (
        (yield from sum_with_threshold(asked, fewest)).reshape(4, 2).tolist()
    )
    return tuple(
        LeftOut(of=of, sites=round(n), rows=round(m), z=moved / math.sqrt(square))
        for of, moved, square, m, n in zip(OF, away, variance, rows, sites, strict=True)
        if square > 0.0
    )
