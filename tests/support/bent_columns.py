"""What tests of numbers take of S beside S itself, by its definition: squares, hinges, products."""

from itertools import combinations

import numpy as np


def with_curves(numbers, *, present=None, all_rows=0, sides=None, events=None, before=2):
    """Numbers, (n, k), in deviations, and what is taken beside them, (n, m).

    ``present`` are all values of each number, among which knots are. ``sides`` are the columns of
    each variable of S, if not all are numbers; beside them there are ``before`` coefficients.
    ``events`` are the rows outside the largest category of a response.
    """
    n, k = numbers.shape
    if not k:
        return numbers
    present = numbers.T if present is None else present
    sides = [column[:, None] for column in numbers.T] if sides is None else sides
    squared = n >= 10 * (2 * k + before)
    share = min(max(0.04, all_rows / 25000), 0.1)
    more = int(n * share)
    if events is not None:
        most = events // 2 - (2 * k + before - 1)
        more = max(min(int(min(2 * events, n) * share), most), 0)
    more += k * squared
    crossed = [
        one[:, [i]] * other[:, [j]]
        for one, other in combinations(sides, 2)
        for i in range(one.shape[1])
        for j in range(other.shape[1])
    ]
    for products in (crossed, []):
        each = min((more - len(products)) // k, 8)
        hinges = each if each in (4, 5) or (each == 2 and not squared) else each - 1
        if hinges >= 2:
            squares = [] if hinges == each else [numbers**2]
            pairs = zip(numbers.T, present, strict=True)
            bent = [bends(column, values, hinges) for column, values in pairs]
            return np.column_stack([numbers, *squares, *bent, *products])
    return np.hstack([numbers, numbers**2]) if more >= k else numbers


def bends(column, present, count):
    """Hinges that open away from the middle, shape (n, count) or fewer."""
    ordered = np.sort(present)
    share = (np.arange(count) + 0.5) / count
    towards_ends = min((count - 2) / 6, 1)
    share = (1 - towards_ends) * share + towards_ends * np.sin(np.pi / 2 * share) ** 2
    rank = np.round(share * (len(ordered) - 1), 6)
    nearest = [np.flatnonzero(np.abs(np.arange(len(ordered)) - at) <= 0.5) for at in rank]
    chosen = np.array([ordered[places].mean() for places in nearest])
    made = []
    for place, knot in enumerate(chosen):
        if ordered[0] < knot < ordered[-1] and knot not in chosen[:place]:
            beyond = knot - column if place < count // 2 else column - knot
            made.append(np.maximum(beyond, 0))
    return np.array(made).T.reshape(len(column), -1)
