"""Refutations of an effect: the same estimate after changes that should, or should not, matter.

Leaks:
    A refutation is disclosed only where as many sites contribute to it as to the effect. They are
    then the same sites, since only sites that contribute to the effect contribute to a refutation.
    So no difference of the two shows fewer sites.
"""

import math
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any, Literal

import msgspec

from cipherdag.algorithms.effect.estimating import Estimating, Estimation
from cipherdag.arrays import FloatVector
from cipherdag.findings.effect import Change, LeftOut, Refutation
from cipherdag.questions.estimation.effect_stages import Missing
from cipherdag.questions.estimation.effect_sums import FOLDS, EffectSums
from cipherdag.questions.gather import gather
from cipherdag.questions.pooled_data import ColumnKinds
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import sum_with_threshold

PAIR: tuple[Literal["treatment", "outcome"], ...] = ("treatment", "outcome")
STANDARD_SCALE = b"\x00" * 8
"""Packed origin 0, and packed exponent 0 of the unit: numbers about 0 with a spread of about 1."""


def refuted(estimation: Estimation, *, every: bool) -> Estimating:
    """The effect with the placebo's refutation, or all if ``every``; in the same rounds."""
    changed = list(_changes(estimation.question))[: None if every else 1]
    others = [
        replace(estimation, question=question, between=False, unchanged=estimation, fits={})
        for _, question in changed
    ]
    effect, *after = yield from gather([estimation.run(), *(other.run() for other in others)])
    if effect.why:
        return effect
    numbers = iter(range(1, FOLDS + 1))
    return replace(
        effect,
        refutations=tuple(
            Refutation(
                change=change,
                left_out=str(next(numbers)) if change == "rows left out" else "",
                why=other.why,
                contrasts=tuple(one for one in other.contrasts if one.scale == "difference"),
            )
            for (change, _), other in zip(changed, after, strict=True)
        ),
    )


def _changes(question: EffectSums) -> Iterator[tuple[Change, EffectSums]]:
    """The question after every change, a placebo first; variables left out in their order.

    No change drops the sites' intercepts. Exact sums with them and without disclose sums of the
    sites' means, from which three sites' counts of categories can be solved.
    """

    def changed(**changes: Any) -> EffectSums:
        return msgspec.structs.replace(question, **changes)

    yield "placebo treatment", changed(refutation="placebo")
    if not question.stratified:
        yield (
            "random common cause",
            changed(
                refutation="random-cause",
                categories=(*question.categories, 0),
                origins=question.origins + STANDARD_SCALE,
                units=question.units + STANDARD_SCALE,
                adjust=(*question.adjust, len(question.categories)),
            ),
        )
    for fold in range(FOLDS):
        yield "rows left out", changed(refutation="subset", fold=fold)
    for variable in question.adjust:
        rest = tuple(v for v in question.adjust if v != variable)
        complete_in = tuple(sorted((*question.complete_in, variable)))
        yield "variable left out", changed(adjust=rest, complete_in=complete_in)


def incomplete_rows(
    scope: EffectSums, kinds: ColumnKinds, min_contributors: int
) -> Generator[Question, FloatVector, tuple[LeftOut, ...]]:
    """Tests of treatment and outcome: whether rows that miss some value differ from complete ones.

    Empty where too few sites contribute. Nothing is asked where columns are known to miss no value.
    """
    if not (kinds.restricted or kinds.incomplete[[*scope.named]].any()):
        return ()
    asked = msgspec.structs.replace(scope, stage=Missing())
    sums = (yield from sum_with_threshold(asked, min_contributors)).reshape(4, 2).tolist()
    return tuple(
        LeftOut(of=of, sites=round(sites), rows=round(rows), z=difference / math.sqrt(variance))
        for of, difference, variance, rows, sites in zip(PAIR, *sums, strict=True)
        if variance > 0.0
    )
