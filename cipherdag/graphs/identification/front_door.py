"""Front-door sets of one treatment and one outcome in a DAG.

Sources: Pearl, "Causal diagrams for empirical research", Biometrika 82 (1995), definition 3 (the
criterion); Jeong, Tian and Bareinboim, "Finding and listing front-door adjustment sets", NeurIPS
2022 (the largest set, by which one is found in polynomial time).
"""

from __future__ import annotations

from cipherdag.graphs.dags import Dag, members, turned
from cipherdag.graphs.identification.separation import closure, connected, without_arrows_from


def front_door_set(dag: Dag, x: int, y: int, observed: int) -> int | None:
    """Observed mediators through which all of x's effect on y goes; no smaller part will do.

    Args:
        dag: The DAG.
        x: The treatment.
        y: The outcome, a descendant of x.
        observed: Bit mask of the variables that may be chosen.

    Returns:
        A bit mask, or None where no set fulfils the criterion.
    """
    free = ~connected(without_arrows_from(dag, 1 << x), x, 0)
    chosen = _largest(dag, x, y, observed & free & ~(1 << x | 1 << y))
    if not _intercepts(dag, x, y, chosen):
        return None
    for v in members(chosen):
        fewer = _largest(dag, x, y, chosen & ~(1 << v))
        if _intercepts(dag, x, y, fewer):
            chosen = fewer
    return chosen


def _largest(dag: Dag, x: int, y: int, within: int) -> int:
    """The largest set of these whose back doors to y are all blocked by x.

    A variable whose back door is open where all of them lose their arrows is in no smaller set
    either: that leaves more arrows.
    """
    while True:
        cut = without_arrows_from(dag, within)
        kept = within & ~connected(cut, y, 1 << x)
        if kept == within:
            return kept
        within = kept


def _intercepts(dag: Dag, x: int, y: int, mediators: int) -> bool:
    """Whether every directed path from x to y goes through one of the mediators."""
    steps = [own & ~mediators for own in turned(dag)]
    return not closure(steps, 1 << x) >> y & 1
