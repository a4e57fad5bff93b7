"""Comparisons over sites made of sums alone: "does any site exceed?" and the secure maximum.

In a comparison each site adds a fresh uniform nonzero word where its value exceeds a threshold,
and zero elsewhere; the sum is zero iff no site exceeds (but for a chance of 2**-64, or 1/t under
BFV). A maximum is found by asking for ``arity - 1`` thresholds at a time.

Leaks:
    The coordinator learns whether any site exceeds each threshold it asked. Of a maximum it learns
    its value on the grid, not which sites attain it nor how many do. A site that colludes with the
    coordinator can leave its own value out and learns the maximum of the others.
"""

from collections.abc import Callable

import numpy as np

from cipherdag.arrays import BoolVector, IndexArray
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Asking, Question

Ask = Callable[[IndexArray], Question]
AskSome = Callable[[IndexArray, IndexArray], Question]
MOST_THRESHOLDS = 4095  # of one group in one round


def secure_any(question: Question) -> Asking[BoolVector]:
    """Ask one comparison; whether any site exceeds, shape (length,)."""
    answer = yield question
    return answer > 0.0


def secure_max(
    ask: Ask, upper: IndexArray, *, arity: int = 16, present: Presence | None = None
) -> Asking[IndexArray]:
    """The largest value over all sites of every group, for whole numbers in 0..upper, shape (G,).

    ``ask`` makes the question "is your value larger than each threshold?" from thresholds of shape
    (G, arity - 1); a site's answer is 0/1 row by row. A round cuts the remaining interval into
    ``arity`` parts, so there are ceil(log(upper.max() + 1) / log(arity)): 16 parts take 5 rounds
    and 75 words a group for 20 bits, 2 parts 20 rounds and 20 words. A group is -1 where a site
    left, as ``present`` says, after the lower bound had risen, and no threshold was exceeded since:
    the bound may rest on that site alone.
    """
    low = np.zeros_like(upper)
    high = upper.copy()
    doubtful = np.zeros(len(upper), dtype=np.bool_)
    covered: int | None = None
    while (open_ := low < high).any():
        thresholds = _thresholds(low, high, arity)
        exceeded = yield from secure_any(ask(thresholds))
        count = exceeded.reshape(thresholds.shape).sum(axis=1)
        if present is not None:
            if covered not in (None, present.n_sites):
                doubtful |= open_ & (low > 0)
            covered = present.n_sites
            doubtful &= count == 0
        # thresholds ascend, so the count of exceeded ones says which part holds the maximum
        bounds = np.column_stack([low - 1, thresholds, high])
        groups = np.arange(len(low))
        low, high = bounds[groups, count] + 1, bounds[groups, count + 1]
    return np.where(doubtful, -1, low)


def secure_min(
    ask: Ask, upper: IndexArray, *, arity: int = 16, present: Presence | None = None
) -> Asking[IndexArray]:
    """The smallest value over all sites of every group, shape (G,), for whole numbers in 0..upper.

    As `secure_max`, but ``ask`` makes the question "is your value below each threshold?"; -1 where
    it is not known.
    """
    mirrored = yield from secure_max(
        lambda t: ask(upper[:, None] - t), upper, arity=arity, present=present
    )
    return np.where(mirrored < 0, -1, upper - mirrored)


def _thresholds(low: IndexArray, high: IndexArray, arity: int) -> IndexArray:
    """Thresholds t with low <= t <= high - 1, ascending, cutting [low, high] into equal parts."""
    steps = np.arange(1, arity, dtype=np.int64)
    width = (high - low + 1)[:, None]
    cut = low[:, None] - 1 + -(-width * steps // arity)
    return np.clip(cut, low[:, None], np.maximum(high - 1, low)[:, None])


def secure_lowest(
    ask: AskSome,
    n_groups: int,
    *,
    lowest: int,
    highest: int,
    near: int,
    keep: int,
    sizes: IndexArray | None = None,
    words: int = 1 << 14,
) -> Asking[tuple[IndexArray, IndexArray]]:
    """The groups with the ``keep`` smallest maxima over sites, ascending, and these maxima.

    A group is dropped as soon as ``keep`` others are known to lie below it, so that most groups are
    asked about in the first round only, or where its maximum is above ``highest``. Each counts as
    many as ``sizes`` says, 1 by default; groups that tie with the last one are kept as well. The
    first thresholds lie close to ``near``. ``ask`` is as for `secure_max`, about some groups by
    their positions, with thresholds of shape (groups, m), or (1, m) for all of them. A round takes
    about so many ``words``; at least 4 thresholds a group are asked.

    Leaks:
        Of every group whether its maximum lies above the thresholds asked; the thresholds follow
        from earlier answers. So the coordinator learns a function of the K maxima: exactly those
        of the groups kept, and a lower bound of each other one.
    """
    low = np.full(n_groups, lowest, dtype=np.int64)
    high = np.full(n_groups, highest, dtype=np.int64)
    alive = np.full(n_groups, lowest <= highest)  # else there is nothing to look for
    counts = np.ones(n_groups, dtype=np.int64) if sizes is None else sizes
    first = True
    while (asked := np.flatnonzero(alive & ((low < high) | first))).size:
        count = min(MOST_THRESHOLDS, max(4, words // asked.size))
        if first:
            thresholds = _around(lowest, highest, near, count)[None]
        else:
            arity = fewest_parts(int((high[asked] - low[asked]).max()) + 1, count + 1)
            thresholds = _thresholds(low[asked], high[asked], arity)
        answers = yield from secure_any(ask(asked, thresholds))
        exceeded = answers.reshape(asked.size, -1).sum(axis=1)
        cuts = np.broadcast_to(thresholds, (asked.size, thresholds.shape[1]))
        bounds = np.column_stack([low[asked] - 1, cuts, high[asked]])
        rows = np.arange(asked.size)
        if first:
            # the last threshold is the largest value of interest
            alive = exceeded < thresholds.shape[1]
            exceeded = np.minimum(exceeded, thresholds.shape[1] - 1)
        low[asked], high[asked] = bounds[rows, exceeded] + 1, bounds[rows, exceeded + 1]
        alive &= low <= _enough(high[alive], counts[alive], keep)
        first = False
    groups = np.flatnonzero(alive)
    return groups, low[groups]


def fewest_parts(values: int, most: int) -> int:
    """The fewest parts that resolve ``values`` values in as many rounds as ``most`` parts need."""
    rounds = 1
    while most**rounds < values:
        rounds += 1
    arity = max(2, int(values ** (1.0 / rounds)))
    while arity**rounds < values:
        arity += 1
    return arity


def _enough(high: IndexArray, counts: IndexArray, keep: int) -> int:
    """The smallest bound that ``keep`` groups do not exceed; the largest number if fewer remain."""
    order = np.argsort(high, kind="stable")
    index = int(np.searchsorted(np.cumsum(counts[order]), keep))
    return int(high[order[index]]) if index < len(order) else np.iinfo(np.int64).max


def _around(lowest: int, highest: int, near: int, count: int) -> IndexArray:
    """Up to ``count`` ascending thresholds, dense at ``near``; ``highest`` is the last one."""
    below = _offsets(near - lowest, count // 2 if near < highest else count - 1)
    above = _offsets(highest - near, count - len(below) - 1)
    cuts = np.concatenate([near - below, near + above, [near, highest]])
    return np.unique(cuts[(cuts >= lowest) & (cuts <= highest)])


def _offsets(reach: int, count: int) -> IndexArray:
    """Up to ``count`` distances from 1 to ``reach``, growing by a constant factor."""
    if reach <= 0 or count <= 0:
        return np.zeros(0, dtype=np.int64)
    return np.unique(np.rint(np.geomspace(1, reach, count)).astype(np.int64))
