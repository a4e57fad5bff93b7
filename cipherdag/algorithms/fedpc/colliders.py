"""Which unshielded triples are colliders, by all sets that separate their ends.

The set that happened to separate x and z decides badly where tests err. Both rules here look at
every subset of the neighbours of x and of those of z, and ask in how many of the sets that separate
the two y stands: ``conservative`` wants none or all of them (Ramsey, Zhang and Spirtes, "Adjacency-
faithfulness and conservative causal inference", UAI 2006), ``majority`` fewer or more than half
(Colombo and Maathuis, JMLR 15 (2014), section 4.2). Triples in between are ambiguous, and so are
those whose ends no set separates: neither colliders nor a ground for Meek's rules.

Leaks:
    What the source of the evidence says of every candidate set of every unshielded pair: the tests
    that the largest p-value asks as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from cipherdag.algorithms.fedpc.pcstable import candidate_tests

if TYPE_CHECKING:
    from collections.abc import Generator

    from cipherdag.algorithms.evidence.source import EvidenceSource
    from cipherdag.algorithms.fedpc.pcstable import Pair
    from cipherdag.graphs.orientation import Triple
    from cipherdag.questions.encodings import FloatVector, IndexArray
    from cipherdag.questions.question import Question, SeparatorSearch

ColliderRule = Literal["sepset", "conservative", "majority"]


@dataclass(slots=True)
class JudgedTriples:
    """The unshielded triples (x, y, z), x < z, that are colliders, and those that may be.

    All others are no colliders.
    """

    colliders: list[Triple] = field(default_factory=list)
    ambiguous: list[Triple] = field(default_factory=list)


def judge_triples(
    source: EvidenceSource, search: SeparatorSearch, rule: Literal["conservative", "majority"]
) -> Generator[Question, FloatVector, JudgedTriples]:
    """Judge every unshielded triple of the skeleton of a search, which has all unshielded pairs.

    Rounds: as `candidate_tests`; none where the candidates were tested before.
    """
    adjacent = search.skeleton.matrix()
    judged = JudgedTriples()

    def hear(pair: Pair, sets: list[IndexArray], p_values: list[FloatVector]) -> None:
        counts = np.zeros(len(adjacent), dtype=np.int64)
        total = 0
        for given, found in zip(sets, p_values, strict=True):
            separating = given[found > search.test.alpha]
            total += len(separating)
            counts += np.bincount(separating.ravel(), minlength=len(adjacent))
        x, z = pair
        for y in np.flatnonzero(adjacent[x] & adjacent[z]).tolist():
            verdict = _verdict(int(counts[y]), total, rule)
            if verdict != "other":
                getattr(judged, verdict).append((x, y, z))

    yield from candidate_tests(source, search, hear)
    return judged


def _verdict(containing: int, total: int, rule: str) -> Literal["colliders", "ambiguous", "other"]:
    """What a triple is whose middle stands in so many of so many separating sets."""
    if total == 0:
        return "ambiguous"
    if containing == 0 or (rule == "majority" and 2 * containing < total):
        return "colliders"
    if containing == total or (rule == "majority" and 2 * containing > total):
        return "other"
    return "ambiguous"
