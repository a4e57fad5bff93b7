"""Which unshielded triples are colliders, by all sets that separate their ends.

The set that happened to separate x and z decides badly where tests err. The rules here look at
every subset of the neighbours of x and of those of z.

``conservative`` and ``majority`` count the separating sets that contain the middle y. The first
needs none for a collider and all for another middle (Ramsey, Zhang and Spirtes, "Adjacency-
faithfulness and conservative causal inference", UAI 2006); the second needs fewer or more than half
(Colombo and Maathuis, JMLR 15 (2014), section 4.2).

``p_value_drop`` compares each set S without y with S and y, if either separates x and z:
conditioning on a collider makes its causes dependent, on any other middle independent. Averaged
over S, p must fall by a factor of `CLEAR` for a collider, or rise by it for another middle;
p-values below alpha / 100 count as equal. S counts only if both tests can be done. S with another
middle counts only if no S without one does: that middle, if a collider, makes x and z dependent by
itself. Where only bits are disclosed, p has three values (`bracketed_p_values`). The mean over S is
robust to two errors: in half of all samples of a chain whose ends many sets separate, the highest p
belongs to a set without the middle; and some set with a collider separates where it acts weakly.

Other triples are ambiguous, and so are those whose ends no set separates; where a DAG needs a
collider, any of them may be it (`cipherdag.graphs.orientation`). A collider y is ambiguous, too, if
another collider w of x and z is adjacent to it, and a test of x or z with y given w was skipped: y
may be an effect of w alone, and adjacent to x and z only for want of that test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from typing import Literal

import numpy as np

from cipherdag.algorithms.constraint_based.pair_tests import Pair
from cipherdag.algorithms.constraint_based.separations import (
    OnResult,
    Separations,
    candidate_tests,
    strongest_of,
    strongest_separators,
)
from cipherdag.algorithms.evidence.federated_test import (
    P_FLOOR,
    FederatedCITest,
    Tests,
    bracketed_p_values,
)
from cipherdag.arrays import BoolMatrix, BoolVector, FloatVector, IndexArray
from cipherdag.graphs.orientation import Triple
from cipherdag.questions.question import Asking
from cipherdag.questions.separators import SeparatorSearch
from cipherdag.statistics.outcome_cache import keys_of_tests, rows_of_keys

JudgingRule = Literal["conservative", "majority", "p_value_drop"]
CollidersBy = Literal["sepset", "conservative", "majority", "p_value_drop"]
ColliderRule = Literal["auto", "sepset", "conservative", "majority", "p_value_drop"]
Verdict = Literal["collider", "ambiguous", "other"]

CLEAR = 2.0  # factor by which p must change on average when a middle joins the sets


@dataclass(frozen=True, slots=True)
class JudgedTriples:
    """The unshielded triples (x, y, z), x < z, that are colliders or may be; others are none.

    Attributes:
        colliders: The colliders, each with the factor by which p falls as y joins a set, or by
            the other rules the share of separating sets without y.
        effects: Ambiguous triples whose y is no cause of x or z, but perhaps not adjacent to both.
        clarity: For every judged triple the factor or share that `colliders` hold.
        separated: The pairs (x, z) that some set of neighbours separates.
    """

    colliders: dict[Triple, float] = field(default_factory=dict)
    ambiguous: list[Triple] = field(default_factory=list)
    effects: set[Triple] = field(default_factory=set)
    clarity: dict[Triple, float] = field(default_factory=dict)
    separated: set[Pair] = field(default_factory=set)

    def without(self, doubtful: Collection[Triple]) -> JudgedTriples:
        """These triples, but with the doubtful ones ambiguous and none of them a collider."""
        colliders = {t: clear for t, clear in self.colliders.items() if t not in doubtful}
        ambiguous = [*self.ambiguous, *sorted({*doubtful} - {*self.ambiguous})]
        return replace(self, colliders=colliders, ambiguous=ambiguous)


def separate_and_judge(
    source: FederatedCITest,
    search: SeparatorSearch,
    separations: Separations | None,
    rule: JudgingRule | None,
) -> Asking[tuple[Separations, JudgedTriples | None]]:
    """Separating sets of the unshielded pairs, and what all sets say of their triples.

    ``separations`` are from the search for the skeleton; None to look for the strongest. ``rule``
    judges the triples; None for the separating sets alone.
    """
    if separations is None and rule is not None and source.lenient is None:
        separations = Separations()  # both from the same p-values
        also = strongest_of(search, separations)
        return separations, (yield from judge_triples(source, search, rule, also))
    if separations is None:
        separations = yield from strongest_separators(source, search)
    judged = None
    if rule is not None:
        judged = yield from judge_triples(source, search, rule)
    return separations, judged


def judge_triples(
    source: FederatedCITest,
    search: SeparatorSearch,
    rule: JudgingRule,
    also: OnResult = lambda *_: None,
) -> Asking[JudgedTriples]:
    """Judge every unshielded triple of the skeleton of a search, which has all unshielded pairs.

    Rounds: as `candidate_tests`, and `bracketed_p_values` by bits. ``also`` takes every result.
    """
    adjacent = search.skeleton.matrix()
    judged = JudgedTriples()
    alpha = search.test.alpha

    def on_result(pairs: IndexArray, tests: Tests, p_values: list[FloatVector]) -> None:
        also(pairs, tests, p_values)
        triples = _triples(pairs, adjacent)
        for rows, p_value in zip(tests, p_values, strict=True):
            keys = np.unique(keys_of_tests(rows[p_value > alpha, :2]))
            judged.separated.update(map(tuple, rows_of_keys(keys, 0).tolist()))
        if rule == "p_value_drop":
            verdicts = _by_p_value_drop(triples, tests, p_values, adjacent, alpha)
        else:
            verdicts = _by_share(triples, tests, p_values, adjacent, alpha, rule)
        listed = zip(triples.tolist(), verdicts, strict=True)
        for (x, z), of_ends in groupby(listed, key=lambda item: item[0][:2]):
            of_pair = [(y, *verdict) for (_, _, y), verdict in of_ends]
            colliders = [y for y, verdict, _ in of_pair if verdict == "collider"]
            for y, verdict, strength in of_pair:
                others = [other for other in colliders if adjacent[other, y]]
                judged.clarity[x, y, z] = strength
                if verdict == "collider" and _may_be_effect(source, (x, z), y, others):
                    judged.ambiguous.append((x, y, z))
                    judged.effects.add((x, y, z))
                elif verdict == "collider":
                    judged.colliders[x, y, z] = strength
                elif verdict == "ambiguous":
                    judged.ambiguous.append((x, y, z))

    by_drop = rule == "p_value_drop"
    ask = partial(bracketed_p_values, source, alpha=alpha) if by_drop else source.p_values
    yield from candidate_tests(ask, search, on_result)
    return judged


def _may_be_effect(source: FederatedCITest, ends: Pair, y: int, others: list[int]) -> bool:
    """Whether y may only be an effect of another collider, since a test given that was skipped."""
    asked = [(end, y, other) for end in ends for other in others]
    return bool(source.skipped_tests(np.array(asked, dtype=np.int64).reshape(-1, 3)).any())


def _triples(pairs: IndexArray, adjacent: BoolMatrix) -> IndexArray:
    """The middles of every pair, one after the other: rows (x, z, y)."""
    middles = [np.flatnonzero(adjacent[x] & adjacent[z]) for x, z in pairs.tolist()]
    counts = list(map(len, middles))
    return np.column_stack([np.repeat(pairs, counts, axis=0), np.concatenate(middles)])


def _by_p_value_drop(
    triples: IndexArray,
    tests: Tests,
    p_values: list[FloatVector],
    adjacent: BoolMatrix,
    alpha: float,
) -> list[tuple[Verdict, float]]:
    """Verdicts by the change of p as each middle joins the sets without it."""
    if len(tests) == 1:  # only empty sets were tested, which no middle may join
        return [_by_drops([])] * len(triples)
    changes = chain.from_iterable(
        _drops(*of_two_sizes, adjacent, alpha)
        for of_two_sizes in zip(tests, tests[1:], p_values, p_values[1:], strict=False)
    )
    joining, alone, drops = map(np.concatenate, zip(*changes, strict=True))
    triple = _index_among(triples)(joining)
    has_alone = np.zeros(len(triples), dtype=bool)
    has_alone[triple[alone]] = True
    counts = alone | ~has_alone[triple]
    ends = np.cumsum(np.bincount(triple[counts], minlength=len(triples)))[:-1]
    ordered = drops[counts][np.argsort(triple[counts], kind="stable")]
    return [_by_drops(of_triple.tolist()) for of_triple in np.split(ordered, ends)]


def _drops(
    smaller: IndexArray,
    larger: IndexArray,
    p_smaller: FloatVector,
    p_larger: FloatVector,
    adjacent: BoolMatrix,
    alpha: float,
) -> Iterator[tuple[IndexArray, BoolVector, FloatVector]]:
    """How far p drops as a middle joins a set, if either test says independent; column by column.

    ``larger`` has the tests of all sets that have one variable more than those of ``smaller``.
    Yields triples (x, z, y), shape (K, 3), whether the set has no other middle, shape (K,), and
    logarithms of how far p drops, shape (K,).
    """
    index_of, low = _index_among(smaller), P_FLOOR * alpha
    middle = _are_middles(larger, adjacent)
    for column, is_middle in enumerate(middle.T, start=2):
        rows = np.flatnonzero(is_middle)
        # all candidate sets without a member are candidates, too
        rest = index_of(np.delete(larger[rows], column, axis=1))
        before, after = p_smaller[rest], p_larger[rows]
        # a comparison with NaN, a test that cannot be done, is False
        tells = (np.maximum(before, after) > alpha) & ~np.isnan(before + after)
        ratio = np.maximum(before[tells], low) / np.maximum(after[tells], low)
        joined = rows[tells]
        alone = middle[joined].sum(axis=1) == 1
        yield larger[joined][:, [0, 1, column]], alone, np.log(ratio)


def _are_middles(rows: IndexArray, adjacent: BoolMatrix) -> BoolMatrix:
    """Which members of the sets of tests, shape (B, 2 + l), are middles of x and z, (B, l)."""
    x, z, members = rows[:, :1], rows[:, 1:2], rows[:, 2:]
    return adjacent[x, members] & adjacent[z, members]


def _index_among(rows: IndexArray) -> Callable[[IndexArray], IndexArray]:
    """A function that gives the indices of tests among ``rows``, which must hold them all."""
    keys = keys_of_tests(rows)
    order = np.argsort(keys)
    ordered = keys[order]
    return lambda wanted: order[np.searchsorted(ordered, keys_of_tests(wanted))]


def _by_drops(drops: list[float]) -> tuple[Verdict, float]:
    """What a middle is, and the factor by which p falls on average as it joins."""
    mean = math.fsum(drops) / len(drops) if drops else 0.0  # exact in any order of the variables
    clear = math.log(CLEAR)
    verdict: Verdict = "ambiguous" if abs(mean) < clear else "collider" if mean > 0 else "other"
    return verdict, math.exp(mean)


def _by_share(
    triples: IndexArray,
    tests: Tests,
    p_values: list[FloatVector],
    adjacent: BoolMatrix,
    alpha: float,
    rule: str,
) -> list[tuple[Verdict, float]]:
    """Verdicts by the share of the separating sets in which each middle stands."""
    separating = [rows[p_value > alpha] for rows, p_value in zip(tests, p_values, strict=True)]
    pairs, pair = np.unique(keys_of_tests(triples[:, :2]), return_inverse=True)
    ends = np.concatenate([keys_of_tests(rows[:, :2]) for rows in separating])
    totals = np.bincount(np.searchsorted(pairs, ends), minlength=len(pairs))[pair]
    having = [
        rows[middle][:, [0, 1, column]]
        for rows in separating
        for column, middle in enumerate(_are_middles(rows, adjacent).T, start=2)
    ]
    members = _index_among(triples)(np.concatenate([triples[:0], *having]))
    containing = np.bincount(members, minlength=len(triples))
    return [
        (_verdict(count, total, rule), 1.0 - count / total if total else 0.0)
        for count, total in zip(containing.tolist(), totals.tolist(), strict=True)
    ]


def _verdict(containing: int, total: int, rule: str) -> Verdict:
    """The verdict on a triple whose middle is in ``containing`` of ``total`` separating sets."""
    if total == 0:
        return "ambiguous"
    if containing == 0 or (rule == "majority" and 2 * containing < total):
        return "collider"
    if containing == total or (rule == "majority" and 2 * containing > total):
        return "other"
    return "ambiguous"
