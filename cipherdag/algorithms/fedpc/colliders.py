"""Which unshielded triples are colliders, by all sets that separate their ends.

The set that happened to separate x and z decides badly where tests err. The rules here look at
every subset of the neighbours of x and of those of z. Two ask in how many of the sets that separate
the two y stands: ``conservative`` wants none or all of them (Ramsey, Zhang and Spirtes, "Adjacency-
faithfulness and conservative causal inference", UAI 2006), ``majority`` fewer or more than half
(Colombo and Maathuis, JMLR 15 (2014), section 4.2). ``joining`` asks what y does when it joins a
set: conditioning on a collider makes its causes dependent, on any other middle independent. Of
every set S without y of which S or S with y separates the two, it takes log p without y less log p
with y, and their mean over S must be a factor of `CLEAR` or more, one way or the other; p-values
below alpha / 100 are all alike to it. A set counts only if both tests can be done, and one with
another middle of x and z only if no other set tells: were that a collider, it would make x and z
dependent, and what y then does says nothing of y. By verdicts p is one of three (`graded`).

Triples in between are ambiguous, and so are those whose ends no set separates: neither colliders
nor a ground for Meek's rules. So is a collider that is joined to another one of the same ends, if a
test of x or z with it, given the other one, was left undone: it may be an effect of the other one
alone, joined to the causes for want of the test that would part them. In half of all samples of a
chain whose ends many sets separate, the highest p belongs to a set without the middle; and where a
weak dependence through a collider goes undetected, some set with it separates. The mean over pairs
of sets is robust to both.

Leaks:
    What the source of the evidence says of every candidate set of every unshielded pair: the tests
    that the largest p-value asks as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from cipherdag.algorithms.evidence.closed import FLOOR, graded
from cipherdag.algorithms.fedpc.pcstable import candidate_tests, strongest_separators
from cipherdag.questions.encodings import row_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Generator

    from cipherdag.algorithms.evidence.source import EvidenceSource
    from cipherdag.algorithms.fedpc.pcstable import Pair, Separations
    from cipherdag.graphs.orientation import Triple
    from cipherdag.questions.encodings import FloatVector, IndexArray
    from cipherdag.questions.question import Question, SeparatorSearch

JudgingRule = Literal["conservative", "majority", "joining"]
ColliderRule = Literal["auto", "sepset", "conservative", "majority", "joining"]
Verdict = Literal["collider", "ambiguous", "other"]

CLEAR = 2.0
"""Factor by which p must change on average when a middle joins the sets."""


@dataclass(slots=True)
class JudgedTriples:
    """The unshielded triples (x, y, z), x < z, that are colliders, and those that may be.

    All others are no colliders.

    Attributes:
        colliders: With how clearly: the factor by which p falls as y joins, or by the other rules
            the share of separating sets without y.
        ambiguous: Those that may be.
        separated: The pairs (x, z) that some set of neighbours separates.
    """

    colliders: dict[Triple, float] = field(default_factory=dict)
    ambiguous: list[Triple] = field(default_factory=list)
    separated: set[Pair] = field(default_factory=set)

    def without(self, doubtful: Collection[Triple]) -> JudgedTriples:
        """The same where some triples may be colliders, whatever tests of their ends say."""
        kept = {own: clear for own, clear in self.colliders.items() if own not in doubtful}
        ambiguous = [*self.ambiguous, *sorted({*doubtful} - {*self.ambiguous})]
        return JudgedTriples(kept, ambiguous, self.separated)


def separated(
    source: EvidenceSource,
    search: SeparatorSearch,
    known: Separations | None,
    rule: JudgingRule | None,
) -> Generator[Question, FloatVector, tuple[Separations, JudgedTriples | None]]:
    """Separating sets of the unshielded pairs, and what all sets say of their triples.

    Args:
        source: Tests.
        search: The pairs.
        known: Sets from the search for the skeleton; None to look for the strongest.
        rule: Judges the triples; None for the separating sets alone.
    """
    if known is None:
        known = yield from strongest_separators(source, search)
    judged = None
    if rule is not None:
        judged = yield from judge_triples(source, search, rule)
    return known, judged


def judge_triples(
    source: EvidenceSource, search: SeparatorSearch, rule: JudgingRule
) -> Generator[Question, FloatVector, JudgedTriples]:
    """Judge every unshielded triple of the skeleton of a search, which has all unshielded pairs.

    Rounds: as `candidate_tests`, and `graded` by verdicts; no test is asked twice.
    """
    adjacent = search.skeleton.matrix()
    judged = JudgedTriples()
    alpha = search.test.alpha

    def hear(pair: Pair, sets: list[IndexArray], p_values: list[FloatVector]) -> None:
        x, z = pair
        if any((own > alpha).any() for own in p_values):
            judged.separated.add(pair)
        middles = np.flatnonzero(adjacent[x] & adjacent[z])
        if rule == "joining":
            verdicts = _by_joining(sets, p_values, middles, alpha)
        else:
            verdicts = _by_share(sets, p_values, middles, alpha, rule)
        judgements = list(zip(middles.tolist(), verdicts, strict=True))
        found = [y for y, (verdict, _) in judgements if verdict == "collider"]
        for y, (verdict, strength) in judgements:
            others = [own for own in found if adjacent[own, y]]
            if verdict == "collider" and _may_be_effect(source, pair, y, others):
                judged.ambiguous.append((x, y, z))
            elif verdict == "collider":
                judged.colliders[x, y, z] = strength
            elif verdict == "ambiguous":
                judged.ambiguous.append((x, y, z))

    ask = partial(graded, source, alpha=alpha) if rule == "joining" else source.p_values
    yield from candidate_tests(ask, search, hear)
    return judged


def _may_be_effect(source: EvidenceSource, ends: Pair, y: int, others: list[int]) -> bool:
    """Whether y may be an effect of one of the other colliders, and no more."""
    asked = [(end, y, other) for end in ends for other in others]
    return bool(source.left_undone(np.array(asked, dtype=np.int64).reshape(-1, 3)).any())


def _by_joining(
    sets: list[IndexArray],
    p_values: list[FloatVector],
    middles: IndexArray,
    alpha: float,
) -> list[tuple[Verdict, float]]:
    """What p does as each middle joins the sets without it."""
    keys = [row_keys(given) for given in sets]
    orders = [np.argsort(own) for own in keys]

    def falls(y: int, without: IndexArray) -> list[float]:
        """Logarithms of how far p falls as y joins a set that has none of some variables."""
        found: list[float] = []
        for size in range(len(sets) - 1):
            joined = (sets[size + 1] == y).any(axis=1)
            joined &= (sets[size + 1][:, :, None] != without).all(axis=(1, 2))
            larger = sets[size + 1][joined]
            rest = row_keys(larger[larger != y].reshape(len(larger), size))
            place = np.searchsorted(keys[size], rest, sorter=orders[size])
            own = orders[size][np.minimum(place, len(orders[size]) - 1)]
            there = keys[size][own] == rest
            before, after = p_values[size][own[there]], p_values[size + 1][joined][there]
            # a comparison with NaN, a test that cannot be done, is False
            told = (np.maximum(before, after) > alpha) & ~np.isnan(before + after)
            low = FLOOR * alpha
            found += np.log(np.maximum(before[told], low) / np.maximum(after[told], low)).tolist()
        return found

    return [
        _by_falls(falls(y, middles[middles != y]) or falls(y, middles[:0]))
        for y in middles.tolist()
    ]


def _by_falls(falls: list[float]) -> tuple[Verdict, float]:
    """What a middle is, and the factor by which p falls on average as it joins."""
    # summed exactly, so that the order of the variables is nothing to it
    mean = math.fsum(falls) / len(falls) if falls else 0.0
    clear = math.log(CLEAR)
    verdict: Verdict = "ambiguous" if abs(mean) < clear else "collider" if mean > 0 else "other"
    return verdict, math.exp(mean)


def _by_share(
    sets: list[IndexArray],
    p_values: list[FloatVector],
    middles: IndexArray,
    alpha: float,
    rule: str,
) -> list[tuple[Verdict, float]]:
    """In how many of the sets that separate each middle stands."""
    separating = [given[found > alpha] for given, found in zip(sets, p_values, strict=True)]
    total = sum(len(own) for own in separating)
    verdicts: list[tuple[Verdict, float]] = []
    for y in middles.tolist():
        containing = sum(int((own == y).any(axis=1).sum()) for own in separating)
        share = 1.0 - containing / total if total else 0.0
        verdicts.append((_verdict(containing, total, rule), share))
    return verdicts


def _verdict(containing: int, total: int, rule: str) -> Verdict:
    """What a triple is whose middle stands in so many of so many separating sets."""
    if total == 0:
        return "ambiguous"
    if containing == 0 or (rule == "majority" and 2 * containing < total):
        return "collider"
    if containing == total or (rule == "majority" and 2 * containing > total):
        return "other"
    return "ambiguous"
