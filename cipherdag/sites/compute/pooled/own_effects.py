"""What one site's rows tell of an effect alone: the same program over the one site.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.effect.estimating import Estimation
from cipherdag.arrays import FloatVector
from cipherdag.findings.effect import AdjustedEffect
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.sites.compute.pooled.blur import SPREAD, Blur

HEAVIEST = 2.0**30
FARTHEST = 2.0**15
"""A weight, and an effect in common units, beyond which a site does not tell its own."""
EFFECT_NOISE_SE = 0.25
"""Standard errors by which a site moves its own effect at most.

Exact ones over three sites, of two categories each, have one solution in whole numbers: tables of
the sites.
"""


def own_effect(
    question: EffectSums, answer: Callable[[EffectSums], FloatVector], blur: Blur | None
) -> FloatVector:
    """The answer to the stage ``apart``.

    Args:
        question: The question.
        answer: What the site answers to the other stages.
        blur: What moves its effect and its weight; None tells them exactly.

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
    if blur is not None:
        first = (question.treatment, question.outcome)
        given = sorted(blur.column(v) for v in question.adjust)
        moved = blur.uniform(b"".join([*map(blur.column, first), *given]), (2, len(own)))
        moved[0] *= blur.sign(*(v for v in first if question.categories[v]))
        effect, error = (
            effect + EFFECT_NOISE_SE * moved[0] * error,
            error * (1.0 + SPREAD * moved[1]),
        )
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
            return finished.value
        sums = answer(question)  # type: ignore[arg-type]
