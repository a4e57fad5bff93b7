"""One layer of the PC skeleton search at a site: which edges survive tests of one size.

Source: FedPC, section 3.2.1, phase 1; Colombo and Maathuis (2014) for the order-independent form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import BoolMatrix, IndexArray
from cipherdag.questions.encodings import subsets
from cipherdag.sites.compute.ci_tests.ci_test import CITest

FIRST_WAVE = 4
WAVE_GROWTH = 8
BATCH = 200_000
SPECULATION = 20_000
PART = 512


@dataclass(frozen=True, slots=True)
class LayerOutcome:
    """What a layer's tests say of the edges at its start.

    Attributes:
        kept: Symmetric adjacency, shape (p, p), without the edges that a test removes.
        tested: Edges of which at least one test could be done, shape (p, p), symmetric.
    """

    kept: BoolMatrix
    tested: BoolMatrix


def stable_layer(test: CITest, skeleton: BoolMatrix, *, layer: int, alpha: float) -> LayerOutcome:
    """The skeleton after one layer in which all neighbourhoods are those of the layer's start.

    Args:
        test: Test over the site's data.
        skeleton: Symmetric adjacency at the start, shape (p, p).
        layer: Size of the conditioning sets.
        alpha: Independent iff p > alpha.

    Returns:
        The outcome, independent of the order of the variables.
    """
    kept, tested = skeleton.copy(), np.zeros_like(skeleton)
    start = 0
    wave = FIRST_WAVE
    pending = _directions(skeleton, layer)
    while pending:
        for x, y, given in _batches(skeleton, pending, layer, start, start + wave):
            p_value = test.evaluate(x, y, given).p_value
            independent, done = p_value > alpha, ~np.isnan(p_value)
            kept[x[independent], y[independent]] = False
            kept[y[independent], x[independent]] = False
            tested[x[done], y[done]] = tested[y[done], x[done]] = True
        start, wave = start + wave, wave * WAVE_GROWTH
        pending = [
            (x, y)
            for x, y in pending
            if kept[x, y] and math.comb(int(skeleton[x].sum()) - 1, layer) > start
        ]
    return LayerOutcome(kept, tested)


def _directions(skeleton: BoolMatrix, layer: int) -> list[tuple[int, int]]:
    """Ordered pairs (x, y) whose conditioning sets come from the neighbours of x."""
    degree = skeleton.sum(axis=1)
    x, y = np.nonzero(skeleton)
    wanted = (degree[x] > layer) if layer else (x < y)
    return list(zip(x[wanted].tolist(), y[wanted].tolist(), strict=True))


def _batches(
    skeleton: BoolMatrix, pending: list[tuple[int, int]], layer: int, start: int, stop: int
) -> Iterator[tuple[IndexArray, IndexArray, IndexArray]]:
    """The tests number ``start`` to ``stop`` of every pending pair, in batches of about BATCH."""
    neighbours = [np.flatnonzero(row) for row in skeleton]
    choices: dict[int, IndexArray] = {}
    xs: list[int] = []
    ys: list[int] = []
    sets: list[IndexArray] = []
    size = 0
    for x, y in pending:
        pool = neighbours[x][neighbours[x] != y]
        if pool.size not in choices:
            choices[pool.size] = subsets(pool.size, layer)[start:stop]
        given = pool[choices[pool.size]]
        xs.append(x)
        ys.append(y)
        sets.append(given)
        size += len(given)
        if size >= BATCH:
            yield _stack(xs, ys, sets)
            xs, ys, sets, size = [], [], [], 0
    if size:
        yield _stack(xs, ys, sets)


def _stack(
    xs: list[int], ys: list[int], sets: list[IndexArray]
) -> tuple[IndexArray, IndexArray, IndexArray]:
    repeats = [len(given) for given in sets]
    return np.repeat(xs, repeats), np.repeat(ys, repeats), np.concatenate(sets)


def sequential_layer(test: CITest, skeleton: BoolMatrix, *, layer: int, alpha: float) -> BoolMatrix:
    """What is kept; as `stable_layer`, but removed edges leave the neighbourhoods at once.

    Pairs (x, y) are visited with y ascending and x ascending within it; conditioning sets come
    from the current neighbours of y in lexicographic order (the original FedPC code). The outcome
    depends on the order of the variables.
    """
    kept = skeleton.copy()
    outcomes = _Outcomes(test, alpha)
    for y in range(skeleton.shape[0]):
        outcomes.speculate(np.flatnonzero(kept[y]), y, layer)
        for x in np.flatnonzero(skeleton[:, y]).tolist():
            neighbours = np.flatnonzero(kept[y])
            if kept[x, y] and outcomes.separable(x, y, neighbours[neighbours != x], layer):
                kept[x, y] = kept[y, x] = False
    return kept


class _Outcomes:
    """Whether x and y are independent given a set, for all x, y and sets tested so far."""

    def __init__(self, test: CITest, alpha: float) -> None:
        self._test, self._alpha = test, alpha
        self._known: dict[tuple[int, ...], bool] = {}

    def speculate(self, neighbours: IndexArray, y: int, layer: int) -> None:
        """Test all sets from the neighbours of y in one batch: later removals only need fewer."""
        degree = neighbours.size
        if degree <= layer or degree * math.comb(degree - 1, layer) > SPECULATION:
            return
        chosen = subsets(degree - 1, layer)
        sets = [neighbours[neighbours != x][chosen] for x in neighbours]
        self._learn(*_stack(neighbours.tolist(), [y] * degree, sets))

    def separable(self, x: int, y: int, pool: IndexArray, layer: int) -> bool:
        """Whether a set from the pool separates x and y."""
        sets = pool[subsets(pool.size, layer)]
        for given in np.array_split(sets, math.ceil(len(sets) / PART) or 1):
            tests = [(x, y, *row) for row in given.tolist()]
            new = given[[test not in self._known for test in tests]]
            if len(new):
                self._learn(np.full(len(new), x), np.full(len(new), y), new)
            if any(self._known[test] for test in tests):
                return True
        return False

    def _learn(self, x: IndexArray, y: IndexArray, given: IndexArray) -> None:
        independent = self._test.evaluate(x, y, given).p_value > self._alpha
        tests = map(tuple, np.column_stack([x, y, given]).tolist())
        self._known |= zip(tests, independent.tolist(), strict=True)
