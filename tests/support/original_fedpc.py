"""The original FedPC program once more, in plain loops from its description: a reference.

It shares no code with the package: lists, scipy and one table at a time.
"""

import math
from itertools import combinations

import numpy as np
from scipy import stats


def g2_test(rows, x, y, given):
    """p and dependence of a G2 test on codes; (nan, nan) where unreliable."""
    levels = rows.max(axis=0) + 1
    cells = math.prod(int(levels[v]) for v in (x, y, *given))
    if len(rows) / cells < 5:
        return math.nan, math.nan
    slices = {}
    for row in rows:
        table = slices.setdefault(tuple(row[list(given)]), np.zeros((levels[x], levels[y])))
        table[row[x], row[y]] += 1
    statistic, dof = 0.0, 0
    for table in slices.values():
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        seen = table > 0
        statistic += 2 * (table[seen] * np.log(table[seen] / expected[seen])).sum()
        empty_rows = (table.sum(axis=1) == 0).sum()
        empty_columns = (table.sum(axis=0) == 0).sum()
        dof += max(levels[x] - 1 - empty_rows, 0) * max(levels[y] - 1 - empty_columns, 0)
    return (1.0 if dof == 0 else float(stats.chi2.sf(statistic, dof))), statistic


def fisher_z_test(rows, x, y, given):
    """p and absolute partial correlation of a Fisher-z test."""
    covariance = np.cov(rows[:, [x, y, *given]], rowvar=False)
    precision = np.linalg.inv(covariance)
    r = -precision[0, 1] / math.sqrt(precision[0, 0] * precision[1, 1])
    z = math.sqrt(len(rows) - len(given) - 3) * math.atanh(r)
    return float(2 * stats.norm.sf(abs(z))), abs(r)


def skeleton(sites, test, alpha):
    """FedSkele: four layers, edits as it goes, votes >= round(0.3 N)."""
    n = sites[0].shape[1]
    graph = np.ones((n, n), dtype=bool) & ~np.eye(n, dtype=bool)
    needed = max(1, math.floor(0.3 * len(sites) + 0.5))
    for layer in range(4):
        votes = np.zeros((n, n), dtype=int)
        for rows in sites:
            own = graph.copy()
            for y in range(n):
                for x in range(n):
                    if not graph[x, y] or not own[x, y]:
                        continue
                    others = [v for v in range(n) if own[v, y] and v != x]
                    for given in combinations(others, layer):
                        if test(rows, x, y, given)[0] > alpha:
                            own[x, y] = own[y, x] = False
                            break
            votes += own
        graph = votes >= needed
    return graph


def separators(sites, test, graph, alpha, continuous):
    """FedOrien's separating set of each unshielded pair: best over candidates, then sites."""
    n = len(graph)
    found = {}
    for x, z in combinations(range(n), 2):
        if graph[x, z] or not (graph[x] & graph[z]).any():
            continue
        pool = sorted({v for v in range(n) if graph[x, v] or graph[z, v]} - {x, z})
        best, chosen = -math.inf, frozenset()
        for size in range(4):
            for given in combinations(pool, size):
                for rows in sites:
                    p, dependence = test(rows, x, z, given)
                    score = -dependence if continuous else p
                    if p > alpha and score > best:
                        best, chosen = score, frozenset(given)
        found[x, z] = chosen
    return found


def orient(graph, separating):
    """Colliders in visit order, later ones overwriting, then Meek's rules 1 to 3."""
    n = len(graph)
    arcs = graph.copy()
    for y in range(n):
        for x in range(n):
            for z in range(n):
                if x == z or not (graph[x, y] and graph[y, z]) or graph[x, z]:
                    continue
                if y not in separating[min(x, z), max(x, z)]:
                    arcs[x, y] = arcs[z, y] = True
                    arcs[y, x] = arcs[y, z] = False
    while True:
        before = arcs.copy()
        for rule in (_rule1, _rule2, _rule3):
            rule(arcs)
        if (arcs == before).all():
            return arcs


def _directed(arcs):
    return arcs & ~arcs.T


def _columns_first(matrix):
    """Pairs (row, column) in the order of the original program: column by column."""
    return [(int(row), int(column)) for column, row in np.argwhere(matrix.T)]


def _rule1(arcs):
    for a, b in _columns_first(_directed(arcs)):
        for c in range(len(arcs)):
            adjacent = arcs[a, c] or arcs[c, a]
            if c != a and arcs[b, c] and arcs[c, b] and not adjacent:
                arcs[c, b] = False


def _rule2(arcs):
    for a, b in _columns_first(arcs & arcs.T):
        directed = _directed(arcs)
        if arcs[a, b] and arcs[b, a] and (directed[a] & directed[:, b]).any():
            arcs[b, a] = False


def _rule3(arcs):
    for a, b in _columns_first(arcs & arcs.T):
        if not (arcs[a, b] and arcs[b, a]):
            continue
        middle = [
            c for c in range(len(arcs)) if arcs[a, c] and arcs[c, a] and _directed(arcs)[c, b]
        ]
        for c, d in combinations(middle, 2):
            if not (arcs[c, d] or arcs[d, c]):
                arcs[b, a] = False
