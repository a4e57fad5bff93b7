"""Checks of the fits behind edges: whether neighbours act along curves that tests cannot follow.

A test of x and y given S errs where the means of both x and y follow S as no regression of the test
does: what is left of both is dependent then. So of each edge, x and y are checked along each number
that either is adjacent to, given the others, by the same sums as tests (`Misfits`). Where both
follow it beyond chance, the edge may be due to it. Neighbours of either count, as a false edge
often explains away one of the edges of the common cause.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from cipherdag.algorithms.evidence.federated_test import in_batches
from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.within_sites import KEY_VALUES, opened_tests
from cipherdag.arrays import BoolMatrix, BoolVector, FloatVector, IndexArray
from cipherdag.findings.doubts import CURVED
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.pooled_data import ColumnKinds
from cipherdag.questions.question import Question
from cipherdag.questions.scores.score_bits import RaoBits
from cipherdag.questions.scores.score_sums import MOST_BINS, Misfits

LEVELS: Final = (0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""Levels of a check. An edge is named only where the checks of both ends agree, by chance about as
often as the square; so the level falls with the number of edges and neighbours."""
CHANCE: Final = 0.02
"""How many edges are to be named by chance in a run, at most, if ends err independently."""

Check = tuple[int, ...]
"""A column, the number that it is checked along, and the others that are given."""


@dataclass(frozen=True, slots=True, order=True)
class CurvedEdge:
    """An edge whose columns both follow a neighbour as tests' regressions cannot, by position."""

    first: int
    second: int
    along: int


def check_fits(
    kinds: ColumnKinds | None,
    settings: EvidenceSettings,
    skeleton: BoolMatrix,
    most: int | None,
    *,
    closed: bool,
) -> Generator[Question, FloatVector, tuple[CurvedEdge, ...]]:
    """Check the fits of all edges between numbers that have numbers as neighbours.

    At most ``most`` columns are given at a time, as in the tests' largest sets; None for all.
    Without columns nothing is checked; where ``closed``, nothing but bits is opened.
    Returned are the edges to be named, ascending. Rounds: one, with sums two, more where checks are
    many; none without such edges.
    """
    if kinds is None or (most is not None and not most):
        return ()
    checks = _checks(skeleton, kinds.categories == 0, most)
    wanted = {check for pair in checks.values() for check in pair}
    if not wanted:
        return ()
    blocks = [
        np.array(sorted(c for c in wanted if len(c) == size), dtype=np.int64).reshape(-1, size)
        for size in range(2, max(map(len, wanted)) + 1)
    ]
    level = next((each for each in LEVELS if len(checks) * each**2 <= CHANCE), LEVELS[-1])
    values = [np.full(len(rows), 2.0 * KEY_VALUES * MOST_BINS) for rows in blocks]
    ask = partial(_asked, kinds, settings, level if closed else None)
    p_values = yield from in_batches(blocks, values, ask)
    curved = {
        tuple(row)
        for rows, p_value in zip(blocks, p_values, strict=True)
        for row in rows[p_value <= level].tolist()
    }
    return tuple(sorted(edge for edge, pair in checks.items() if curved.issuperset(pair)))


def details_of_curves(edges: Sequence[CurvedEdge], names: Sequence[str]) -> dict[str, Any]:
    """The entry of a finding's details, as `findings.doubts` reads it; none without edges."""
    rows = [[names[v] for v in (edge.first, edge.second, edge.along)] for edge in edges]
    return {CURVED: rows} if rows else {}


def _checks(
    skeleton: BoolMatrix, numbers: BoolVector, most: int | None
) -> dict[CurvedEdge, tuple[Check, Check]]:
    """The checks of both ends of every edge, along each number that either is adjacent to."""
    checks = {}
    for x, y in np.argwhere(np.triu(skeleton) & numbers[:, None] & numbers).tolist():
        near = [v for v in np.flatnonzero(skeleton[x] | skeleton[y]).tolist() if v not in (x, y)]
        for at, along in enumerate(near):
            # as many others as tests are given, those that follow in turn
            given = tuple(sorted((near[at + 1 :] + near[:at])[: most and most - 1]))
            if numbers[along]:
                ends = (x, along, *given), (y, along, *given)
                checks[CurvedEdge(x, y, along)] = ends
    return checks


def _asked(
    kinds: ColumnKinds, settings: EvidenceSettings, level: float | None, checks: list[IndexArray]
) -> Generator[Question, FloatVector, FloatVector]:
    """The p-values of some checks, or with a level bits of them, 0 where above chance, or 1."""
    counts, members = pack_blocks(checks)
    question = Misfits(
        categories=tuple(kinds.categories.tolist()),
        counts=counts,
        members=members,
        max_rows=settings.max_rows,
        ordered=tuple(np.flatnonzero(kinds.ordered).tolist()),
        n_rows=max(kinds.rows, 1),
    )
    if level is not None:
        return 1.0 - (yield RaoBits(question, (level,)))
    _, p_values, _ = yield from opened_tests(question, settings)
    return p_values
