"""What one site's rows tell of an effect alone: the same program over the one site.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.effect.estimating import Estimation

if TYPE_CHECKING:
    from collections.abc import Callable

    from cipherdag.findings.effect import AdjustedEffect
    from cipherdag.questions.estimation.effect_sums import EffectSums
    from cipherdag.sites.compute.ci_tests.ci_test import FloatVector

HEAVIEST = 2.0**30
FARTHEST = 2.0**15
"""A weight, and an effect in common units, beyond which a site does not tell its own."""


def own_effect(question: EffectSums, answer: Callable[[EffectSums], FloatVector]) -> FloatVector:
    """The answer to the stage ``apart``.

    Args:
        question: The question.
        answer: What the site answers to the other stages.

    Returns:
        Zeros where its rows alone do not determine the models.
    """
    scope = msgspec.structs.replace(question, stage="rows")
    facts = Facts(len(question.categories), 1)
    alone = Estimation(scope, facts, question.against, leave_out=False, apart=False)
    found = _finished(alone, answer)
    told = np.zeros((4, question.contrasts))
    if found.why or not alone.determined:
        return told.ravel()
    own = [one for one in found.contrasts if one.scale == "difference"]
    effect = np.ldexp([one.estimate for one in own], -question.effect_unit)
    error = np.ldexp([one.error for one in own], -question.effect_unit)
    for place in np.flatnonzero((error > HEAVIEST**-0.5) & (abs(effect) < FARTHEST)):
        weight = 1.0 / error[place] ** 2
        told[:, place] = weight, weight * effect[place], weight * effect[place] ** 2, 1.0
    return told.ravel()


def _finished(alone: Estimation, answer: Callable[[EffectSums], FloatVector]) -> AdjustedEffect:
    asking = alone.run()
    sums = None
    while True:
        try:
            question = next(asking) if sums is None else asking.send(sums)
        except StopIteration as finished:
            found: AdjustedEffect = finished.value
            return found
        sums = answer(question)  # type: ignore[arg-type]
