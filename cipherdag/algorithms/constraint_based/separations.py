"""The strongest separating set of each unshielded pair, by tests of all candidate sets.

Source: Ramsey, "Improving accuracy and scalability of the PC algorithm by maximizing p-value",
arXiv 1610.00378.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from cipherdag.algorithms.constraint_based.pair_tests import Pair
from cipherdag.algorithms.evidence.federated_test import FederatedCITest, PValues, Tests
from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.question import Asking
from cipherdag.questions.separators import SeparatorSearch

OnResult = Callable[[IndexArray, Tests, list[FloatVector]], None]
"""Takes pairs, shape (G, 2), the tests of all their candidate sets, and the p-values."""

LAYER_TESTS, SHARE_BEFORE, MOST_AT_ONCE = 1_000, 4, 1_000_000
"""A round has at most 1,000 tests, or a quarter of those done so far if these are more; and never
above 1,000,000."""


@dataclass(slots=True)
class Separations:
    """The strongest separating set of each pair (x, z), x < z, and its p-value."""

    sets: dict[Pair, frozenset[int]] = field(default_factory=dict)
    p_values: dict[Pair, float] = field(default_factory=dict)

    def offer(self, pair: Pair, members: frozenset[int], p_value: float) -> None:
        """Take the set unless one at least as strong is there; the first wins a tie."""
        if p_value > self.p_values.get(pair, -math.inf):
            self.sets[pair], self.p_values[pair] = members, p_value


def strongest_separators(source: FederatedCITest, search: SeparatorSearch) -> Asking[Separations]:
    """Of every pair the candidate set of largest p, if any is above alpha.

    p-values are compared on the grid of the search and the first candidate wins a tie, as in
    FedPC's secure maximum, so that one site's votes and its evidence orient equally; they come back
    rounded down to it. Rounds: as `candidate_tests`.
    """
    best = Separations()
    yield from candidate_tests(source.p_values, search, strongest_of(search, best))
    return best


def strongest_of(search: SeparatorSearch, best: Separations) -> OnResult:
    """Collects the strongest of all candidate sets of every pair in ``best``."""
    variables = search.skeleton.n_variables

    def on_result(_: IndexArray, tests: Tests, p_values: list[FloatVector]) -> None:
        for rows, of_size in zip(tests, p_values, strict=True):
            separating = np.flatnonzero(of_size > search.test.alpha)
            grades = np.floor(np.ldexp(of_size[separating], search.grid_bits))
            pair = rows[separating, 0] * variables + rows[separating, 1]
            order = np.lexsort((-grades, pair))
            first = order[np.unique(pair[order], return_index=True)[1]]
            sets = rows[separating[first]].tolist()
            strengths = np.ldexp(grades[first], -search.grid_bits).tolist()
            for (x, z, *given), strength in zip(sets, strengths, strict=True):
                best.offer((x, z), frozenset(given), strength)

    return on_result


def candidate_tests(
    ask: Callable[[Tests], PValues], search: SeparatorSearch, on_result: OnResult
) -> Asking[None]:
    """Test all candidate sets of every pair of a search, some pairs at a time.

    Rounds: one batch of tests, and one more per `most_tests`.
    """
    candidates, pairs = search.candidates(), search.pair_array()
    first = total = done = 0
    for group in range(search.n_groups):
        total += candidates.total(group)
        if total > most_tests(done) or group == search.n_groups - 1:
            tests = candidates.tests(range(first, group + 1))
            on_result(pairs[first : group + 1], tests, (yield from ask(tests)))
            first, total, done = group + 1, 0, done + total


def most_tests(done: int) -> int:
    """How many tests the next round has at most, after so many of the same kind."""
    return max(LAYER_TESTS, min(done // SHARE_BEFORE, MOST_AT_ONCE))
