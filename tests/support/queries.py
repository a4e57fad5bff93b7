"""Asks for the p-values of given tests; `Queries.ask` runs alone or through a whole federation."""

from dataclasses import dataclass, field

import numpy as np

from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.presence import Presence

SPEC = CITestSpec(alpha=0.01)


@dataclass
class Queries:
    """Tests by one kind of evidence; the p-values are kept in ``found``."""

    kind: str
    tests: list = field(repr=False)
    spec: CITestSpec = SPEC
    max_cells: int = 4096
    site_effect: bool = False
    interactions: bool = False
    found: list = field(default_factory=list)
    n_tests_by_method: dict = field(default_factory=dict)

    def ask(self, facts):
        source = yield from self.open(facts.n_variables, facts.n_sites)
        self.found = yield from source.p_values(self.tests)
        self.n_tests_by_method = dict(source.n_tests_by_method)

    def open(self, n_variables, n_sites=3):
        settings = EvidenceSettings(
            spec=self.spec,
            n_variables=n_variables,
            max_cells=self.max_cells,
            site_effect=self.site_effect,
            interactions=self.interactions,
            present=Presence(n_sites),
        )
        return EVIDENCE[self.kind].open(settings)


def random_tests(n_variables, counts, rng):
    """Random triplets by size of S, ``counts[l]`` of size l: rows (x, y, s1, ..., sl)."""
    return [
        rng.permuted(np.tile(np.arange(n_variables), (count, 1)), axis=1)[:, : 2 + size]
        for size, count in enumerate(counts)
    ]


def random_of_size(rng, n_variables, size, count):
    """Random tests given so many variables each: x, y and the members of every set."""
    chosen = rng.permuted(np.tile(np.arange(n_variables), (count, 1)), axis=1)[:, : size + 2]
    return chosen[:, 0], chosen[:, 1], chosen[:, 2:]


def central(test, tests):
    """Outcomes of a `CITest` by size."""
    return [test.evaluate(rows[:, 0], rows[:, 1], rows[:, 2:]) for rows in tests]
