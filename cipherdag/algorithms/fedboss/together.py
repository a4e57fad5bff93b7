"""Searches side by side: each waits where scores are missing, and one round learns of all.

Leaks:
    Nothing beyond what the scores open; fewer rounds are seen.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

from cipherdag.algorithms.fedboss.grow_shrink import GrowShrinkTrees
from cipherdag.arrays import FloatVector
from cipherdag.questions.question import Question

Outcome = TypeVar("Outcome")
Waiting = Generator[None, None, Outcome]
"""A search that yields where it can only go on once `GrowShrinkTrees.missing` is learnt."""


def together(
    trees: GrowShrinkTrees, searches: Sequence[Waiting[Outcome]]
) -> Generator[Question, FloatVector, list[Outcome]]:
    """The outcomes of some searches over the same trees, in their order."""
    outcomes: dict[int, Outcome] = {}
    while len(outcomes) < len(searches):
        for number, search in enumerate(searches):
            if number in outcomes:
                continue
            try:
                next(search)
            except StopIteration as finished:
                outcomes[number] = finished.value
        if trees.missing:
            yield from trees.learn()
    return [outcomes[number] for number in range(len(searches))]
