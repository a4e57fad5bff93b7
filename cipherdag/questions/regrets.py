"""Questions of RFcd: a site's regret of a graph, its score less that of the site's best graph.

A score is a cost, BIC or a description length, and a sum over families (see `dags`). A smaller
regret is better, and it may be negative where the site's own search missed its optimum. On the grid
a regret is the nearest whole multiple of 2**-grid_bits.

Leaks:
    By many thresholds the coordinator learns the largest regret, which is one site's own. Before it
    answers, a site that restricts small counts merges rare categories, perturbs its likelihoods and
    rounds its regrets.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from cipherdag.arrays import IndexArray
from cipherdag.graphs.dags import Dag, Family
from cipherdag.questions.disclosure import Disclosure, Quantity, coarse, of_one
from cipherdag.questions.encodings import MAX_VARIABLES, Encoding, unpack_integers
from cipherdag.questions.question import Question

MAX_REGRET_BITS = 32  # a regret lies within 2**32 of the score's unit; a site refuses beyond
REGRET_GRID_LIMIT = 20


class ScoreSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A score that the sites use, and the algorithm that learns their best graph."""

    # ``bic``: of a linear Gaussian model for continuous columns, of tables for discrete ones, in
    # nats; ``mdl``: spline description length for continuous columns, in bits
    score: Literal["bic", "mdl"] = "bic"
    learner: Literal["ges"] = "ges"  # ``ges``: greedy equivalence search


def largest_on_grid(grid_bits: int) -> int:
    """The largest magnitude of a regret on the grid."""
    return 1 << (MAX_REGRET_BITS + grid_bits)


class _OfFamilies(Question, frozen=True):
    """Base of the questions below: a packed list of families, each a variable and its parents.

    A question is about each family, or about graphs that the families make up.
    """

    n_variables: int
    spec: ScoreSpec
    families: bytes

    def family_list(self) -> list[Family]:
        """The families in order; raises ValueError where they are not packed families."""
        return unpack_families(self.families, self.n_variables)


class GraphRegretExceeds(_OfFamilies, frozen=True, tag="graph-regret-exceeds"):
    """Asks whether the regret of each graph exceeds each threshold: RFcd, Algorithm 1, line 13.

    Attributes:
        families: Packed families that the graphs are made of.
        graphs: Packed graphs: how many families change from one to the next, then which ones.
        n_graphs: Number of graphs, K.
        thresholds: Packed whole multiples of 2**-grid_bits: m for all, or m for each graph.
    """

    discloses = of_one(Quantity.WORST_REGRET)

    graphs: bytes
    n_graphs: int
    thresholds: bytes
    grid_bits: int

    def __post_init__(self) -> None:
        _check_grid(self.n_variables, self.grid_bits)
        if not 0 <= self.n_graphs <= len(self.graphs):
            raise ValueError("n_graphs does not fit the packed graphs")
        self.threshold_array()

    @property
    def label(self) -> str:
        return f"worst-case regret of {self.n_graphs} graphs"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        return (_exceeds(self.threshold_array(), self.discloses),)

    def graph_rows(self) -> IndexArray:
        """The index of each variable's family in the list, for every graph, shape (K, p).

        ValueError where the packed graphs cannot have been made by `pack_graphs`.
        """
        return _unpack_graphs(self.graphs, self.n_graphs, self.family_list(), self.n_variables)

    def threshold_array(self) -> IndexArray:
        """Thresholds, shape (K, m)."""
        return _thresholds(self.thresholds, self.n_graphs)


class FamilyRegretExceeds(_OfFamilies, frozen=True, tag="family-regret-exceeds"):
    """Asks whether the regret of each family exceeds each threshold: node-wise worst case (PERI).

    The regret of a family is the site's score of it minus that of the variable's family in the
    graph that the site learnt. Attributes as for `GraphRegretExceeds`.
    """

    discloses = of_one(Quantity.REGRETS)

    thresholds: bytes
    grid_bits: int

    def __post_init__(self) -> None:
        _check_grid(self.n_variables, self.grid_bits)
        self.threshold_array()

    @property
    def label(self) -> str:
        return f"worst-case regret of {len(self.family_list())} families"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        return (_exceeds(self.threshold_array(), self.discloses),)

    def threshold_array(self) -> IndexArray:
        return _thresholds(self.thresholds, len(self.family_list()))


class FamilyRegrets(_OfFamilies, frozen=True, tag="family-regrets"):
    """Asks for the site's regret of each family, to be summed over sites; attributes as above."""

    discloses = coarse(Quantity.REGRETS)

    grid_bits: int

    def __post_init__(self) -> None:
        _check_grid(self.n_variables, self.grid_bits)
        self.family_list()

    @property
    def label(self) -> str:
        return f"sum of regrets of {len(self.family_list())} families"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        return (
            Encoding(
                len(self.family_list()),
                float(1 << MAX_REGRET_BITS),
                self.discloses,
                resolution_bits=self.grid_bits,
                signed=True,
            ),
        )


def _exceeds(thresholds: IndexArray, discloses: tuple[Disclosure, ...]) -> Encoding:
    return Encoding(thresholds.size, 1.0, discloses, comparison=True)


def pack_families(families: Sequence[Family], n_variables: int) -> bytes:
    """Two bytes for the variable, then one bit per possible parent, little-endian."""
    width = (n_variables + 7) // 8
    return b"".join(
        v.to_bytes(2, "little") + parents.to_bytes(width, "little") for v, parents in families
    )


def unpack_families(packed: bytes, n_variables: int) -> list[Family]:
    """Inverse of `pack_families`; raises ValueError where it cannot have been made by it."""
    width = 2 + (n_variables + 7) // 8
    if len(packed) % width:
        raise ValueError("packed families do not have the length that n_variables implies")
    families = []
    for start in range(0, len(packed), width):
        v = int.from_bytes(packed[start : start + 2], "little")
        parents = int.from_bytes(packed[start + 2 : start + width], "little")
        if v >= n_variables or parents >> n_variables or parents >> v & 1:
            raise ValueError("a family names a variable that is not there, or its own parent")
        families.append((v, parents))
    return families


def pack_graphs(graphs: Sequence[Dag]) -> tuple[bytes, bytes]:
    """Pack graphs into the ``families`` and ``graphs`` of a `GraphRegretExceeds`."""
    positions: dict[Family, int] = {}
    counts: list[int] = []
    changed: list[int] = []
    before: Dag = ()
    for dag in graphs:
        start = len(changed)
        changed += [
            positions.setdefault((v, parents), len(positions))
            for v, parents in enumerate(dag)
            if not before or parents != before[v]
        ]
        counts.append(len(changed) - start)
        before = dag
    n_variables = len(graphs[0]) if graphs else 0
    packed = np.array([*counts, *changed], dtype="<u4").tobytes()
    return pack_families(list(positions), n_variables), packed


def pack_thresholds(thresholds: IndexArray) -> bytes:
    """Pack thresholds, shape (K, m), or (1, m) if all graphs share them: m, then row by row."""
    numbers = np.concatenate([[thresholds.shape[1]], thresholds.ravel()])
    return np.ascontiguousarray(numbers, dtype="<i8").tobytes()


def _unpack_graphs(
    packed: bytes, n_graphs: int, families: list[Family], n_variables: int
) -> IndexArray:
    if len(packed) % 4 or len(packed) < 4 * n_graphs:
        raise ValueError("packed graphs are not whole numbers, or are cut off")
    numbers = np.frombuffer(packed, dtype="<u4").astype(np.int64)
    counts, changed = numbers[:n_graphs], numbers[n_graphs:]
    if counts.sum() != len(changed) or (changed >= len(families)).any():
        raise ValueError("packed graphs end elsewhere, or have a family that is not listed")
    variable = np.array([v for v, _ in families], dtype=np.int64)[changed]
    graph = np.repeat(np.arange(n_graphs), counts)
    rows = np.full((n_graphs, n_variables), -1, dtype=np.int64)
    rows[graph, variable] = changed
    if n_graphs and (rows[0] < 0).any():
        raise ValueError("the first packed graph lacks a variable")
    # where a graph has no entry, the one before it holds
    latest = np.where(rows >= 0, np.arange(n_graphs)[:, None], 0)
    np.maximum.accumulate(latest, axis=0, out=latest)
    return rows[latest, np.arange(n_variables)]


def _thresholds(packed: bytes, rows: int) -> IndexArray:
    if len(packed) < 8 or len(packed) % 8:  # noqa: PLR2004
        raise ValueError("packed thresholds are not whole numbers")
    count = int(unpack_integers(packed[:8], (1,))[0])
    numbers = (len(packed) - 8) // 8
    if count < 1 or numbers not in (count, count * rows):
        raise ValueError("packed thresholds are neither one row nor one row per group")
    thresholds = unpack_integers(packed[8:], (numbers // count, count))
    return np.broadcast_to(thresholds, (rows, count)) if len(thresholds) == 1 else thresholds


def _check_grid(n_variables: int, grid_bits: int) -> None:
    if not 1 <= n_variables <= MAX_VARIABLES:
        raise ValueError(f"n_variables must lie in 1..{MAX_VARIABLES}")
    if not 0 <= grid_bits <= REGRET_GRID_LIMIT:
        raise ValueError(f"grid_bits must lie in 0..{REGRET_GRID_LIMIT}")


def from_grid(value: int, grid_bits: int) -> float:
    """The value in the score's unit: nats for ``bic``, bits for ``mdl``."""
    return math.ldexp(value, -grid_bits)
