"""PC at single sites, and the five comparators of FedPC that are made of it.

Source: Huang et al., "Towards privacy-aware causal structure learning in federated setting", IEEE
TBD 2023, supplement S-1-1, baselines (4) to (8). The paper names no PC program; here it is
PC-stable with the separating set of largest p, the same as with our evidence from sums, so that
comparators and FedPC differ in what they exchange and in nothing else. alpha 0.01, sets of up to
3 variables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.algorithms.constraint_based.separations import Separations, strongest_separators
from cipherdag.algorithms.constraint_based.skeleton import stable_skeleton
from cipherdag.algorithms.evidence.federated_test import CachedFederatedCITest
from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.graphs.extension import acyclic_extension
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import (
    class_of,
    colliders_by_sepset,
    meek,
    unshielded_pairs,
)
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.separators import SeparatorSearch
from cipherdag.questions.skeleton import Skeleton
from cipherdag.sites.answers.table_tests import table_test

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cipherdag.sites.table.site_table import SiteTable

VOTE_SHARE = 0.3
GRID_BITS = 20


@dataclass(frozen=True)
class PC:
    """PC's parameters.

    Attributes:
        alpha: Independent iff p > alpha.
        max_cond_size: Largest conditioning set.
        test: CI test by name; ``auto`` follows the columns (G2 or Fisher's z).
        sepset: ``max``: the set of largest p among all candidates; ``search``: among those that the
            search of the skeleton tested, for hubs whose candidates run into millions.
        kernel_rows: Most rows of a table that the test ``kci`` looks at.
    """

    alpha: float = 0.01
    max_cond_size: int = 3
    test: str = "auto"
    sepset: str = "max"
    kernel_rows: int = 1000

    @property
    def spec(self) -> CITestSpec:
        return CITestSpec(alpha=self.alpha, name=self.test, kernel_rows=self.kernel_rows)


@dataclass(frozen=True)
class Learnt:
    """What PC finds on one table of p variables.

    Attributes:
        skeleton: Symmetric adjacency, shape (p, p).
        separations: Set and p-value of every separated pair, from the search of the skeleton.
        cpdag: Shape (p, p), True where i -> j or i - j.
    """

    skeleton: np.ndarray
    separations: Separations
    cpdag: np.ndarray


class TableTests(CachedFederatedCITest):
    """Evidence from one table, without asking anybody."""

    def __init__(self, table: SiteTable, spec: CITestSpec) -> None:
        super().__init__(EvidenceSettings(spec=spec, n_variables=len(table.names)))
        self._test = table_test(table, spec, device="cpu")

    def _ask(self, tests):
        yield from ()
        return [
            self._test.evaluate(rows[:, 0], rows[:, 1], rows[:, 2:]).p_value
            if len(rows)
            else np.zeros(0)
            for rows in tests
        ]


def pc_skeleton(table: SiteTable, pc: PC):
    """PC-stable's skeleton on one table, with its separating sets, and the evidence used."""
    tests = TableTests(table, pc.spec)
    known = Constraints.none(len(table.names))
    search = stable_skeleton(tests, known, alpha=pc.alpha, max_cond_size=pc.max_cond_size)
    return concluded(search), tests


def learn(table: SiteTable, pc: PC) -> Learnt:
    """PC on one table: skeleton, separating sets of largest p, the class with its colliders."""
    found, tests = pc_skeleton(table, pc)
    search = SeparatorSearch(
        skeleton=Skeleton.from_matrix(found.skeleton),
        pairs=pack_integers(unshielded_pairs(found.skeleton)),
        test=pc.spec,
        pool="either",
        max_cond_size=pc.max_cond_size,
        measure="p_value",
        grid_bits=GRID_BITS,
    )
    best = found.separations
    if pc.sepset == "max":
        best = concluded(strongest_separators(tests, search))
    pairs = [(int(x), int(z)) for x, z in search.pair_array()]
    own = class_of(
        found.skeleton,
        colliders_by_sepset(found.skeleton, {pair: best.sets.get(pair) for pair in pairs}),
        Constraints.none(len(table.names)),
        strength={pair: best.p_values.get(pair, 0.0) for pair in pairs},
        tie_break=found.tie_break_score,
    )
    return Learnt(found.skeleton, found.separations, own.arcs)


def every_site(sites: Sequence[SiteTable], pc: PC) -> list[CausalGraph]:
    """PC-Avg and PC-Best: the DAG of every site alone."""
    return [as_dag(table, learn(table, pc).cpdag) for table in sites]


def pc_all(sites: Sequence[SiteTable], pc: PC) -> list[CausalGraph]:
    """PC-All: PC on the rows of all sites at one place."""
    whole = pooled(sites)
    return [as_dag(whole, learn(whole, pc).cpdag)]


def simple_1(sites: Sequence[SiteTable], pc: PC) -> list[CausalGraph]:
    """FedPC-Simple-I: directed edges that more than 30 % of the sites' DAGs have.

    Where both directions have as many, the one with more votes stays, of equals the one whose cause
    stands first; nothing keeps cycles away (the paper says neither).
    """
    votes = sum(graph.arcs.astype(int) for graph in every_site(sites, pc))
    kept = votes >= needed(len(sites))
    wins = (votes > votes.T) | ((votes == votes.T) & np.triu(np.ones_like(kept), k=1))
    return [CausalGraph.from_arcs(sites[0].names, kept & (wins | ~kept.T))]


def simple_2(sites: Sequence[SiteTable], pc: PC) -> list[CausalGraph]:
    """FedPC-Simple-II: edges of more than 30 % of the sites' skeletons, sets intersected.

    A pair's separating set is the intersection over the sites that separated it (of a pair that
    the vote separated, at least two thirds did).
    """
    found = [pc_skeleton(table, pc)[0] for table in sites]
    skeleton = sum(own.skeleton.astype(int) for own in found) >= needed(len(sites))
    common = {}
    for x, z in unshielded_pairs(skeleton).tolist():
        own = [f.separations.sets[x, z] for f in found if (x, z) in f.separations.sets]
        common[x, z] = frozenset.intersection(*own)
    arcs = skeleton.copy()
    for x, y, z in sorted(
        colliders_by_sepset(skeleton, common), key=lambda at: (at[1], at[0], at[2])
    ):
        if arcs[[x, z], y].all():  # a head that an earlier collider set stays
            arcs[y, [x, z]] = False
    return [as_dag(sites[0], meek(arcs))]


def needed(n_sites: int) -> int:
    """Votes that are strictly more than 30 % of the sites."""
    return math.floor(VOTE_SHARE * n_sites + 1e-9) + 1


def as_dag(table: SiteTable, cpdag) -> CausalGraph:
    """A DAG of the CPDAG's class, as for FedPC's own results."""
    return CausalGraph.from_arcs(table.names, acyclic_extension(cpdag))


def pooled(sites: Sequence[SiteTable]) -> SiteTable:
    """The table of all sites' rows, in the order of the sites."""
    return replace(
        sites[0],
        rows=sum(table.rows for table in sites),
        codes=stacked([table.codes for table in sites]),
        values=stacked([table.values for table in sites]),
    )


def stacked(parts):
    return None if parts[0] is None else np.concatenate(parts)


def concluded(search):
    """What a search that asks nobody returns."""
    try:
        next(search)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("a search on one table asked a question")
