"""Graphs that fit one matrix of covariances: draws of the matrix, and of orders given each.

Each replicate is a Wishart draw of the matrix. FedBOSS's search on it starts a Markov chain over
orders of the variables, from which a few graphs are drawn. A chain on the observed matrix alone
would ignore its sampling error; the best graphs alone would omit others that fit as well.

Source: Friedman and Koller, "Being Bayesian about network structure", Machine Learning 50, 2003,
for orders; Kuipers and Moffa, "Partition MCMC for inference on acyclic digraphs", JASA 112, 2017,
and Kuipers, Suter and Moffa, "Efficient sampling and structure learning of Bayesian networks",
JCGS 31, 2022, for tables over candidate parents; Breiman, "Bagging predictors", 1996.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cipherdag.algorithms.fedboss.grow_shrink import GrowShrinkTrees, search_jointly
from cipherdag.algorithms.fedboss.moment_scores import LEAST_VARIANCE, MomentScores
from cipherdag.algorithms.fedboss.moment_search import best_by_moments
from cipherdag.arrays import BoolMatrix, FloatMatrix, FloatVector, IndexArray
from cipherdag.graphs.dags import Dag, dag_of, matrix_of, topological
from cipherdag.graphs.knowledge import Constraints
from cipherdag.statistics.reproducible import on_grid

REPLICATES = 50
GRAPHS = 10  # graphs that are drawn from the chain of each replicate
MOVES, MOVES_EACH = 8_000, 400
"""A chain takes `MOVES_EACH` moves per variable, at most `MOVES`; its first half is burn-in."""
SWAPS = 3
"""Fewest swaps of neighbours that are tried for every two moves; a step tries about p / 2."""
CANDIDATES = 10  # candidate parents of a variable; more if a best graph has more neighbours
MOST_CANDIDATES = 12  # since a table has 2**K entries for K candidates
MOST_SAMPLED = 100  # most variables for which graphs are drawn
SPARE_ROWS = 5
"""Rows, less one for each site, that a matrix needs beyond its variables to be drawn again."""
RIDGE = 1e-9

Graphs = NDArray[np.bool_]  # directed edges of several DAGs, shape (G, p, p)
Masks = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Tables:
    """What every set of candidate parents scores in every replicate; B of them, p variables."""

    candidates: IndexArray  # each variable's, shape (B, p, K)
    # the bit of u among the candidates of v, at [b, v, u]; 0 of others. Shape (B, p, p).
    bits: Masks
    # log scores of sets of candidates, shape (B, p, 2**K); minus infinity of sets that knowledge
    # forbids
    scores: FloatMatrix
    sums: FloatMatrix  # log sums over all subsets of a set, in the same shape


def draw_graphs(
    correlations: FloatMatrix, rows: int, constraints: Constraints, rng: np.random.Generator
) -> Graphs:
    """Draw graphs that the matrix leaves open, shape (`REPLICATES` * `GRAPHS`, p, p).

    Correlations, shape (p, p), are of rows less their site's means; ``rows`` is the number of these
    less one per site. Every graph obeys the background knowledge.
    """
    matrices = wishart_correlations(correlations, rows, REPLICATES, rng)
    best_dags = [_best_graph(matrix, rows, constraints, rng) for matrix in matrices]
    tables = _score_tables(matrices, rows, best_dags, constraints)
    orders = np.array([topological(dag) for dag in best_dags])
    drawn = [_drawn(tables, masks, rng) for masks in _chains(tables, orders, rng)]
    return np.concatenate(drawn)


def wishart_correlations(
    correlations: FloatMatrix, rows: int, draws: int, rng: np.random.Generator
) -> FloatMatrix:
    """Correlation matrices of ``rows`` normal rows, shape (draws, p, p), by Bartlett's factors."""
    p = len(correlations)
    factor = np.linalg.cholesky(correlations + RIDGE * np.eye(p))
    bartlett = np.tril(rng.standard_normal((draws, p, p)), -1)
    bartlett[:, range(p), range(p)] = np.sqrt(rng.chisquare(rows - np.arange(p), (draws, p)))
    root = factor @ bartlett
    covariances = root @ root.transpose(0, 2, 1)
    spreads = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    return on_grid(covariances / (spreads[:, :, None] * spreads[:, None, :]))


def _best_graph(
    matrix: FloatMatrix, rows: int, constraints: Constraints, rng: np.random.Generator
) -> Dag:
    """The best graph that a search with no restarts finds in one matrix."""
    scores = MomentScores(matrix, rows, penalty=2.0, max_parents=MOST_CANDIDATES - 2)
    trees = GrowShrinkTrees(scores, dag_of(constraints.forbidden), dag_of(constraints.required))
    search = search_jointly(trees, [best_by_moments(trees, scores, 0, rng)])
    while True:  # it asks nothing, since every score is there
        try:
            next(search)
        except StopIteration as end:
            (best,) = end.value
            return tuple(best.dag)


def _candidates(
    matrix: FloatMatrix, dag: BoolMatrix, required: BoolMatrix, size: int
) -> IndexArray:
    """Candidate parents of every variable, shape (p, size).

    First its parents in the search's graph, then its children, then those with the largest partial
    and marginal correlations in turn.
    """
    p = len(matrix)
    inverse = np.linalg.inv(matrix + RIDGE * np.eye(p))
    spreads = np.sqrt(np.diagonal(inverse))
    partial, marginal = np.abs(inverse / np.outer(spreads, spreads)), np.abs(matrix)
    chosen = np.empty((p, size), dtype=np.int64)
    for v in range(p):
        first = [*np.flatnonzero(required[:, v]), *np.flatnonzero(dag[:, v])]
        ranked = np.column_stack([np.argsort(-partial[v]), np.argsort(-marginal[v])]).ravel()
        unique = dict.fromkeys([*first, *np.flatnonzero(dag[v]), *ranked])
        chosen[v] = [u for u in unique if u != v][:size]
    return chosen


def _score_tables(
    matrices: FloatMatrix, rows: int, best_dags: Sequence[Dag], constraints: Constraints
) -> _Tables:
    p = matrices.shape[1]
    dags = [matrix_of(dag) for dag in best_dags]
    joined = max(int((dag | dag.T).sum(axis=0).max()) for dag in dags)
    size = min(p - 1, max(CANDIDATES, min(joined, MOST_CANDIDATES)))
    required = constraints.required
    candidates = np.array(
        [_candidates(m, dag, required, size) for m, dag in zip(matrices, dags, strict=True)]
    )
    bits = np.zeros(matrices.shape, dtype=np.int64)
    np.put_along_axis(bits, candidates, np.broadcast_to(1 << np.arange(size), candidates.shape), 2)
    forbidden = np.where(constraints.forbidden.T, bits, 0).sum(axis=2)
    needed = np.where(required.T, bits, 0).sum(axis=2)
    scores, sums = np.empty((2, *candidates.shape[:2], 1 << size))
    for v in range(p):  # one after the other, since two whole tables are most of a run's memory
        scores[:, v] = set_scores(
            matrices, candidates[:, v], v, rows, forbidden[:, v], needed[:, v]
        )
        sums[:, v] = subset_sums(scores[:, v])
    return _Tables(candidates, bits, scores, sums)


def set_scores(
    matrices: FloatMatrix,
    candidates: IndexArray,
    v: int,
    rows: int,
    forbidden: Masks,
    needed: Masks,
) -> FloatMatrix:
    """BIC of v given every set of its candidates, less ln C(p - 1, size), shape (B, 2**K).

    Correlations have shape (B, p, p); candidate k, of shape (B, K), is bit k of a set. Minus
    infinity where a member of the set ``forbidden``, shape (B,), is a parent, or one of ``needed``
    is none.
    """
    p, size = matrices.shape[1], candidates.shape[1]
    parts = np.column_stack([np.full(len(candidates), v), candidates])
    replicate = np.arange(len(candidates))[:, None, None]
    left = matrices[replicate, parts[:, :, None], parts[:, None, :]][:, None]
    for _ in range(size):  # the last candidate is left out of a set, or swept into it
        pivot, column = left[..., -1, -1], left[..., :-1, -1]
        varies = pivot > LEAST_VARIANCE
        share = np.divide(
            column, pivot[..., None], out=np.zeros_like(column), where=varies[..., None]
        )
        without = left[..., :-1, :-1]
        swept = without - column[..., :, None] * share[..., None, :]
        left = np.stack([without, swept], axis=2).reshape(len(left), -1, *without.shape[2:])
    variance = np.maximum(left[..., 0, 0], LEAST_VARIANCE)
    masks = np.arange(1 << size)
    sizes = np.array([mask.bit_count() for mask in range(1 << size)])
    cost = np.array(
        [0.5 * math.log(rows) * k + math.log(math.comb(p - 1, k)) for k in range(size + 1)]
    )
    scores = -0.5 * rows * np.log(variance) - cost[sizes]
    legal = (masks & forbidden[:, None] == 0) & (masks & needed[:, None] == needed[:, None])
    return np.where(legal, on_grid(scores), -np.inf)


def subset_sums(scores: FloatMatrix) -> FloatMatrix:
    """Log sums over all subsets of every set, by one bit after the other; shape (..., 2**K)."""
    sums = scores.copy()
    width = 1
    while width < scores.shape[-1]:
        halves = sums.reshape(*scores.shape[:-1], -1, 2, width)
        np.logaddexp(halves[..., 1, :], halves[..., 0, :], out=halves[..., 1, :])
        width *= 2
    return on_grid(sums)


class _Chains:
    """Orders of the variables, one for each replicate, that move by Metropolis' rule.

    The weight of an order is the sum over all graphs whose edges go along it. Arrays are indexed
    flat, which halves the time; ``_first`` is where each replicate begins, ``_starts`` each table.
    """

    def __init__(self, tables: _Tables, orders: IndexArray, rng: np.random.Generator) -> None:
        n, p = orders.shape
        self._tables, self._rng, self._index = tables, rng, np.arange(p)
        self._orders, self._first = orders, np.arange(n)[:, None] * p
        self._starts = (self._first + self._index) << tables.candidates.shape[2]
        self._by_candidate = np.ascontiguousarray(tables.bits.transpose(0, 2, 1))
        self._positions = np.argsort(orders, axis=1)
        before = self._positions[:, None, :] < self._positions[:, :, None]
        self.masks: Masks = np.where(before, tables.bits, 0).sum(axis=2)
        self._scores = self._sums_of(self._starts, self.masks)

    def _sums_of(self, starts: IndexArray, masks: Masks) -> FloatVector:
        values: FloatVector = self._tables.sums.take(starts | masks)
        return values

    def _accepted(self, gain: FloatVector) -> BoolMatrix:
        accepted: BoolMatrix = np.log(self._rng.random(gain.shape)) < gain
        return accepted

    def swap(self, first: int) -> None:
        """Try to swap the neighbours at ``first`` and the next position, and at every other two."""
        u, v = self._orders[:, first:-1:2], self._orders[:, first + 1 :: 2]
        at_u, at_v = self._first + u, self._first + v
        bits, p = self._tables.bits, self._orders.shape[1]
        masks, scores = self.masks.reshape(-1), self._scores.reshape(-1)
        more = masks[at_u] | bits.take(at_u * p + v)
        less = masks[at_v] & ~bits.take(at_v * p + u)
        after_u = self._sums_of(self._starts.take(at_u), more)
        after_v = self._sums_of(self._starts.take(at_v), less)
        yes = self._accepted(after_u + after_v - scores[at_u] - scores[at_v])
        at_u, at_v = at_u[yes], at_v[yes]
        masks[at_u], masks[at_v] = more[yes], less[yes]
        scores[at_u], scores[at_v] = after_u[yes], after_v[yes]
        positions = self._positions.reshape(-1)
        positions[at_u] += 1
        positions[at_v] -= 1
        self._orders.reshape(-1)[self._first + self._positions] = self._index

    def move(self) -> None:
        """Try to take one variable of each order to any other position."""
        n, p = self._orders.shape
        source, target = self._rng.integers(0, p, (2, n, 1))
        x = self._orders.reshape(-1)[self._first + source]
        # those between source and target go one position back or on, and change sides with x
        lost = (self._positions > source) & (self._positions <= target)
        won = (self._positions < source) & (self._positions >= target)
        passed, at = lost | won, (self._first + x)[:, 0]
        masks = self.masks ^ np.where(passed, self._by_candidate.reshape(n * p, p)[at], 0)
        toggled = np.where(passed, self._tables.bits.reshape(n * p, p)[at], 0).sum(axis=1)
        masks.reshape(-1)[at] ^= toggled
        scores = self._sums_of(self._starts, masks)
        yes = self._accepted(scores.sum(axis=1) - self._scores.sum(axis=1))
        positions = (self._positions + won - lost)[yes]
        positions[np.arange(len(positions)), x[yes, 0]] = target[yes, 0]
        self.masks[yes], self._scores[yes], self._positions[yes] = (
            masks[yes],
            scores[yes],
            positions,
        )
        self._orders.reshape(-1)[self._first + self._positions] = self._index


def _chains(tables: _Tables, orders: IndexArray, rng: np.random.Generator) -> list[Masks]:
    """The candidates before each variable, at `GRAPHS` times in the second half of every chain."""
    chains, p = _Chains(tables, orders, rng), orders.shape[1]
    if p == 1:
        return [chains.masks] * GRAPHS
    moves = min(MOVES, MOVES_EACH * p)
    sampled = []
    for number in range(1, moves + 1):
        chains.move()
        for _ in range(-(-SWAPS // p)):  # of about p / 2 pairs
            chains.swap(int(rng.integers(0, min(p - 1, 2))))
        if number > moves // 2 and number % (moves // 2 // GRAPHS) == 0:
            sampled.append(chains.masks.copy())
    return sampled


def _drawn(tables: _Tables, masks: Masks, rng: np.random.Generator) -> Graphs:
    """One graph of every order: parent sets drawn by weight among those before. Shape (B, p, p)."""
    scores = tables.scores
    n, p, _ = scores.shape
    graphs = np.zeros((n, p, p), dtype=bool)
    sets, replicate = np.arange(scores.shape[2]), np.arange(n)[:, None]
    for v in range(p):
        fits = sets & ~masks[:, v, None] == 0
        noisy = np.where(fits, scores[:, v] + rng.gumbel(size=fits.shape), -np.inf)
        parents = noisy.argmax(axis=1)[:, None]
        chosen = parents >> np.arange(tables.candidates.shape[2]) & 1
        graphs[replicate, tables.candidates[:, v], v] = chosen == 1
    return graphs
