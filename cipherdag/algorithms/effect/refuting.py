"""An effect and the same estimate after changes that should, or should not, matter.

Leaks:
    The same sums as the effect's own once more for every change, but for counts of propensities.
    A change is told where as many sites tell of it as of the effect: these are then the same, since
    a site tells of a change only if it tells of the effect, so that no difference is of fewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from cipherdag.algorithms.effect.estimating import Estimating, Estimation
from cipherdag.findings.effect import Change, Refutation
from cipherdag.questions.estimation.effect_sums import PARTS, EffectSums
from cipherdag.questions.lockstep import lockstep

NO_UNIT = b"\x00" * 8
"""Of a column of numbers that lie about 0 and spread about 1: origin 0, or the unit 2 to the 0."""


def refuted(own: Estimation, *, every: bool) -> Estimating:
    """The effect, and of a placebo, or after every change; all in the same rounds."""
    changed = list(_changes(own.question))[: None if every else 1]
    doubts = [
        Estimation(
            question,
            own.facts,
            own.reference,
            own.leave_out,
            apart=False,
            whole=own,
            first=own.first,
        )
        for _, question in changed
    ]
    found, *others = yield from lockstep([own.run(), *(doubt.run() for doubt in doubts)])
    if found.why:
        return found
    numbers = iter(range(1, PARTS + 1))
    return replace(
        found,
        refutations=tuple(
            Refutation(
                change=change,
                left_out=str(next(numbers)) if change == "rows left out" else "",
                why=other.why,
                contrasts=tuple(one for one in other.contrasts if one.scale == "difference"),
            )
            for (change, _), other in zip(changed, others, strict=True)
        ),
    )


def _changes(question: EffectSums) -> Iterator[tuple[Change, EffectSums]]:
    """The question after every change, a placebo first; variables left out in their order.

    No constants of the sites' own are dropped: exact sums with and without them differ by those of
    the sites' means, which for categories over three sites have one solution in whole numbers.
    """
    plain = msgspec.structs.replace(question, overlap=False)
    yield "placebo treatment", msgspec.structs.replace(plain, drawn="placebo")
    if not question.stratified:
        yield "random common cause", _with_cause(plain)
    for part in range(PARTS):
        yield "rows left out", msgspec.structs.replace(plain, drawn="part", part=part)
    for variable in question.adjust:
        rest = tuple(v for v in question.adjust if v != variable)
        beside = tuple(sorted((*question.beside, variable)))
        yield "variable left out", msgspec.structs.replace(plain, adjust=rest, beside=beside)


def _with_cause(question: EffectSums) -> EffectSums:
    return msgspec.structs.replace(
        question,
        drawn="cause",
        categories=(*question.categories, 0),
        origins=question.origins + NO_UNIT,
        units=question.units + NO_UNIT,
        adjust=(*question.adjust, len(question.categories)),
    )
