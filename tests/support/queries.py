"""Asks for the p-values of given tests through a whole protected run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cipherdag.algorithms.evidence.kinds import open_evidence
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
from cipherdag.questions.question import CITestSpec

SPEC = CITestSpec(alpha=0.01)


@dataclass
class Queries:
    """An algorithm whose outcome is an empty graph; the p-values are kept in ``found``."""

    kind: str
    tests: list = field(repr=False)
    spec: CITestSpec = SPEC
    max_cells: int = 4096
    name: str = "fedpc"
    evidence: str = "pooled"
    sepset: str = "max"
    reference: str = "paper"
    test: str = "auto"
    colliders: str = "sepset"
    found: list = field(default_factory=list)
    tally: dict = field(default_factory=dict)

    def ask(self, n_variables, n_sites, names=(), *, seed=0):
        source = yield from self.open(n_variables)
        self.found = yield from source.p_values(self.tests)
        self.tally = dict(source.tally)
        empty = np.zeros((n_variables, n_variables), dtype=bool)
        return FedPCOutcome(empty, empty, {}, {}, (), tests=self.tally)

    def open(self, n_variables):
        return open_evidence(
            self.kind,
            self.spec,
            n_variables=n_variables,
            max_cells=self.max_cells,
            max_rows=1 << 20,
        )


def random_tests(n_variables, counts, rng):
    """Random triplets by size of S, ``counts[l]`` of size l: rows (x, y, s1, ..., sl)."""
    return [
        rng.permuted(np.tile(np.arange(n_variables), (count, 1)), axis=1)[:, : 2 + size]
        for size, count in enumerate(counts)
    ]


def central(test, tests):
    """Outcomes of a `CITest` by size."""
    return [test.evaluate(rows[:, 0], rows[:, 1], rows[:, 2:]) for rows in tests]
