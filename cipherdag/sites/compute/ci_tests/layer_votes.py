"""One layer of the PC skeleton search at a site: which edges survive tests of one size.

Source: FedPC, section 3.2.1, phase 1; Colombo and Maathuis (2014) for the order-independent form.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cipherdag.questions.question import subsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cipherdag.sites.compute.ci_tests.ci_test import CITest, IndexArray

BoolMatrix = NDArray[np.bool_]

FIRST_WAVE = 4
WAVE_GROWTH = 8
BATCH = 200_000
SPECULATION = 20_000


def stable_layer(test: CITest, skeleton: BoolMatrix, *, layer: int, alpha: float) -> BoolMatrix:
    """The skeleton after one layer in which all neighbourhoods are those of the layer's start.

    Args:
        test: Test over the site's data.
        skeleton: Symmetric adjacency at the start, shape (p, p).
        layer: Size of the conditioning sets.
        alpha: Independent iff p > alpha.

    Returns:
        Symmetric adjacency, shape (p, p); independent of the order of the variables.
    """
    kept = skeleton.copy()
    start = 0
    wave = FIRST_WAVE
    pending = _directions(skeleton, layer)
    while pending:
        for x, y, given in _batches(skeleton, pending, layer, start, start + wave):
            independent = test.evaluate(x, y, given).p_value > alpha
            kept[x[independent], y[independent]] = False
            kept[y[independent], x[independent]] = False
        start, wave = start + wave, wave * WAVE_GROWTH
        pending = [
            (x, y)
            for x, y in pending
            if kept[x, y] and math.comb(int(skeleton[x].sum()) - 1, layer) > start
        ]
    return kept


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
    """As `stable_layer`, but removed edges leave the neighbourhoods at once.

    Pairs (x, y) are visited with y ascending and x ascending within it; conditioning sets come
    from the current neighbours of y in lexicographic order (the original FedPC code). The outcome
    depends on the order of the variables.
    """
    kept = skeleton.copy()
    known: dict[tuple[int, int], dict[tuple[int, ...], bool]] = {}
    for y in range(skeleton.shape[0]):
        _speculate(test, kept, y, layer, alpha, known)
        for x in np.flatnonzero(skeleton[:, y]).tolist():
            if kept[x, y] and _separable(test, kept, (x, y), layer, alpha, known):
                kept[x, y] = kept[y, x] = False
    return kept


def _speculate(
    test: CITest,
    kept: BoolMatrix,
    y: int,
    layer: int,
    alpha: float,
    known: dict[tuple[int, int], dict[tuple[int, ...], bool]],
) -> None:
    """Test all sets from the neighbours of y in one batch: later removals only need fewer."""
    neighbours = np.flatnonzero(kept[y])
    degree = neighbours.size
    if degree <= layer or degree * math.comb(degree - 1, layer) > SPECULATION:
        return
    chosen = subsets(degree - 1, layer)
    sets = [neighbours[neighbours != x][chosen] for x in neighbours]
    x, _, given = _stack(neighbours.tolist(), [y] * degree, sets)
    _learn(test, x, np.full(len(x), y), given, alpha, known)


def _learn(
    test: CITest,
    x: IndexArray,
    y: IndexArray,
    given: IndexArray,
    alpha: float,
    known: dict[tuple[int, int], dict[tuple[int, ...], bool]],
) -> None:
    independent = test.evaluate(x, y, given).p_value > alpha
    outcomes: Iterable[tuple[int, int, list[int], bool]] = zip(
        x.tolist(), y.tolist(), given.tolist(), independent.tolist(), strict=True
    )
    for a, b, members, outcome in outcomes:
        known.setdefault((a, b), {})[tuple(members)] = outcome


def _separable(
    test: CITest,
    kept: BoolMatrix,
    pair: tuple[int, int],
    layer: int,
    alpha: float,
    known: dict[tuple[int, int], dict[tuple[int, ...], bool]],
) -> bool:
    x, y = pair
    neighbours = np.flatnonzero(kept[y])
    pool = neighbours[neighbours != x]
    outcomes = known.get(pair, {})
    for given in np.array_split(*_chunks(pool, layer)):
        missing = np.array([tuple(row) not in outcomes for row in given.tolist()], dtype=bool)
        if missing.any():
            count = int(missing.sum())
            _learn(test, np.full(count, x), np.full(count, y), given[missing], alpha, known)
            outcomes = known[pair]
        if any(outcomes[tuple(row)] for row in given.tolist()):
            return True
    return False


def _chunks(pool: IndexArray, layer: int) -> tuple[IndexArray, int]:
    """Candidate sets and into how many parts of at most 512 to cut them."""
    given = pool[subsets(pool.size, layer)] if pool.size >= layer else np.zeros((0, layer), int)
    return given, max(1, math.ceil(len(given) / 512))
