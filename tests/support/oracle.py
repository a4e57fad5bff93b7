"""A CI test that answers from the true DAG, so that search and statistics are tested apart."""

import numpy as np

from cipherdag.sites.compute.ci_tests.ci_test import CITestResult


class OracleTest:
    """p = 1 where x and y are d-separated in the DAG, else 0; a `CITest` over no data.

    Reachability by active trails (Koller and Friedman 2009, algorithm 3.1) on bit sets; what one x
    reaches given one set is found once.
    """

    def __init__(self, dag):
        dag = np.asarray(dag, dtype=bool)
        self.n_variables = len(dag)
        self._children = [_bits(np.flatnonzero(row)) for row in dag]
        self._parents = [_bits(np.flatnonzero(column)) for column in dag.T]
        self._ancestors = self._close(self._parents)
        self._reached = {}

    def evaluate(self, x, y, given):
        conditions = [_bits(row) for row in np.asarray(given).tolist()]
        pairs = zip(np.asarray(x).tolist(), np.asarray(y).tolist(), conditions, strict=True)
        connected = np.array([self._reach(a, s) >> b & 1 for a, b, s in pairs], dtype=float)
        return CITestResult(
            p_value=1.0 - connected,
            statistic=connected,
            dof=np.ones(len(connected)),
            dependence=connected.copy(),
            rows=np.ones(len(connected), dtype=np.int64),  # so that weighted means are defined
        )

    def separated(self, x, y, given=()):
        """Whether x and y are d-separated by the given positions."""
        return not self._reach(int(x), _bits(given)) >> int(y) & 1

    def _reach(self, x, given):
        """Bit set of what has an active trail from x."""
        key = (x, given)
        if key not in self._reached:
            self._reached[key] = self._active(x, given)
        return self._reached[key]

    def _active(self, x, given):
        opened = given  # colliders that are given or have a given descendant
        for v in _members(given):
            opened |= self._ancestors[v]
        up, down = 1 << x, 0  # reached from a child, and from a parent
        new_up, new_down = up, down
        while new_up or new_down:
            next_up = next_down = 0
            for v in _members(new_up & ~given):
                next_up |= self._parents[v]
                next_down |= self._children[v]
            for v in _members(new_down & ~given):
                next_down |= self._children[v]
            for v in _members(new_down & opened):
                next_up |= self._parents[v]
            new_up, new_down = next_up & ~up, next_down & ~down
            up, down = up | new_up, down | new_down
        return (up | down) & ~given

    def _close(self, parents):
        ancestors = list(parents)
        while True:
            further = [a | _union(ancestors[v] for v in _members(a)) for a in ancestors]
            if further == ancestors:
                return ancestors
            ancestors = further


def random_dag(n, expected_degree, rng):
    """A random DAG in a random order: each pair has an edge with expected_degree / (n - 1).

    Args:
        n: Number of variables.
        expected_degree: Mean number of neighbours, at most n - 1.
        rng: numpy Generator.

    Returns:
        Directed edges, boolean, shape (n, n).
    """
    chance = min(1.0, expected_degree / max(1, n - 1))
    ordered = np.triu(rng.random((n, n)) < chance, k=1)
    order = rng.permutation(n)
    return ordered[np.ix_(order, order)]


def _bits(positions):
    return sum(1 << int(v) for v in set(positions))


def _members(bits):
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _union(sets):
    union = 0
    for each in sets:
        union |= each
    return union
