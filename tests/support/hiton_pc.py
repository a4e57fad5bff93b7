"""HITON-PC for one table, once more, in plain loops from its description: a reference.

It shares no code with the package; ``test(rows, x, y, given)`` gives p and dependence, p NaN where
the test is unreliable.
"""

import math
from itertools import combinations


def parents_and_children(rows, target, test, alpha, largest=3):
    """Members of the target's set in the order of their admission."""
    marginal = {}
    for v in range(rows.shape[1]):
        if v != target:
            p, dependence = test(rows, target, v, [])
            if not math.isnan(p) and p < alpha:
                # rounding of sums must not order variables that are equally strong
                marginal[v] = round(dependence, 8)
    members = []
    for newest in sorted(marginal, key=lambda v: (-marginal[v], v)):
        members.append(newest)
        for member in members[::-1]:
            others = [v for v in members if v != member]
            for given in nonempty_subsets(others, largest):
                if member != newest and newest not in given:
                    continue
                p, _ = test(rows, target, member, given)
                if not math.isnan(p) and p > alpha:
                    members.remove(member)
                    break
            if newest not in members:
                break
    return members


def nonempty_subsets(variables, largest):
    """All subsets of 1 up to so many variables, the small ones first."""
    for size in range(1, largest + 1):
        yield from map(list, combinations(variables, size))
