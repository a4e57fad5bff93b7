"""Which tests of the edges that stand were done, and which could not be.

Each of an edge's tests is decisive: the edge would not stand if it said independent. A test that is
not done counts as dependent, so an edge with one may stand for want of that test alone.

Leaks:
    Nothing new: that a test could not be done was opened by the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cipherdag.algorithms.evidence.remembering import Keys, triplet_keys
from cipherdag.algorithms.evidence.source import EvidenceSource
from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray
from cipherdag.graphs.edge_evidence import TestsOfEdge
from cipherdag.graphs.relations import NOTHING, Determined
from cipherdag.questions.presence import Measured

Pair = tuple[int, int]

NOT_TOGETHER = "no site measured both"
TOO_FEW_SITES = "too few sites have rows that tell"
TOO_FEW_ROWS = "rows are too few, or do not vary"
FOLLOWS = "one of the two follows from what is given"


@dataclass(slots=True)
class DecisiveTests:
    """Counts the distinct tests of every pair, and those that were not done.

    Attributes:
        n_variables: Number of variables, p.
    """

    n_variables: int
    _asked: dict[int, list[tuple[IndexArray, Keys]]] = field(default_factory=dict)
    _undone: dict[Pair, dict[tuple[int, ...], None]] = field(default_factory=dict)

    def hear(self, rows: IndexArray, p_values: FloatVector) -> None:
        """Take tests, shape (B, 2 + l), and their p-values; NaN where one was not done.

        Those given nothing are not counted but where they were not done: every pair has one.
        """
        if rows.shape[1] > len(("x", "y")):
            keys, first = np.unique(triplet_keys(rows), return_index=True)
            low, high = np.sort(rows[first, :2], axis=1).T
            own = self._asked.setdefault(rows.shape[1], [])
            own.append((low * self.n_variables + high, keys))
        for x, z, *given in rows[np.isnan(p_values)].tolist():
            known = self._undone.setdefault((min(x, z), max(x, z)), {})
            known[tuple(sorted(given))] = None

    def of(
        self,
        skeleton: BoolMatrix,
        joined: BoolMatrix,
        source: EvidenceSource,
        measured: Measured,
        determined: Determined = NOTHING,
    ) -> dict[Pair, TestsOfEdge[int]]:
        """The tests of every edge x < z that was to be tested.

        Args:
            skeleton: The edges that stand, shape (p, p).
            joined: Those that stand whatever tests say, shape (p, p).
            source: Of the tests.
            measured: Which variables the sites measured. Tests of those that no site measured
                together are none of the plan's, but for that of the two given nothing.
            determined: Which of them follow from others.
        """
        edges = np.argwhere(np.triu(skeleton & ~joined))
        own = edges @ np.array([self.n_variables, 1])
        asked = self._counted(own)
        found = {}
        for (x, z), count in zip(edges.tolist(), asked.tolist(), strict=True):
            not_done = self._undone.get((x, z), {})
            undone = [given for given in not_done if measured.has([x, z, *given])]
            asked_for = count - len(not_done) + len(undone)
            given = min(undone, key=len, default=())
            why = _why((x, z, *given), source, determined) if undone else ""
            if not measured.has([x, z]):
                asked_for, undone, why = 1, [()], NOT_TOGETHER
            found[x, z] = TestsOfEdge(asked_for, len(undone), given, why)
        return found

    def _counted(self, pairs: IndexArray) -> IndexArray:
        """The distinct tests of pairs x p + z, ascending, shape (E,)."""
        counts = np.ones(len(pairs), dtype=np.int64)  # given nothing
        for own in self._asked.values() if len(pairs) else ():
            codes, keys = (np.concatenate(part) for part in zip(*own, strict=True))
            place = np.minimum(np.searchsorted(pairs, codes), len(pairs) - 1)
            hit = pairs[place] == codes
            first = np.unique(keys[hit], return_index=True)[1]
            counts += np.bincount(place[hit][first], minlength=len(pairs))
        return counts


def _why(test: Sequence[int], source: EvidenceSource, determined: Determined) -> str:
    """Why a test was not done, in words."""
    if determined.undone(np.array([test], dtype=np.int64)).any():
        return FOLLOWS
    x, y, *given = test
    triplets = np.array([(x, y, s) for s in given], dtype=np.int64).reshape(-1, 3)
    return TOO_FEW_SITES if source.skipped_tests(triplets).any() else TOO_FEW_ROWS
