"""Pairs without any test: edges that stand untested, and edges that were removed untested.

Leaks:
    Nothing: the plan declares what sites measured, and how many sites can test a pair was opened.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from cipherdag.arrays import BoolMatrix, IndexArray
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.relations import MOST_SHOWN
from cipherdag.pages.numerals import first_of

UNTESTED_DETAIL = "untested_edges"
"""Where a conclusion's details list edges that no site measured both ends of."""
REMOVED_DETAIL = "untested_separations"
"""Where a conclusion's details describe pairs without an edge that could not be tested."""
NEVER_TOGETHER = "No site measured both, so nothing was tested: whether the edge is there is open."


def support_of(
    p_value: float, pair: tuple[int, int], given: Collection[int] | None, removed: BoolMatrix | None
) -> float | None:
    """The p-value that supports a separation; None where its edge was ``removed`` untested."""
    return None if not given and removed is not None and removed[pair] else p_value


def support_phrase(
    p_value: float, pair: tuple[int, int], given: Collection[int] | None, removed: BoolMatrix | None
) -> str:
    """The support of a separation in words."""
    support = support_of(p_value, pair, given, removed)
    return "not tested" if support is None else f"support {support:.3g}"


def removed_untested(untestable: IndexArray, constraints: Constraints) -> BoolMatrix | None:
    """Pairs whose edges were removed untested, shape (p, p), symmetric; None where there are none.

    Args:
        untestable: Pairs that the source of tests says could not be tested, shape (B, 2).
        constraints: Background knowledge: pairs that it excludes were not to be tested.
    """
    removed = np.zeros_like(constraints.excluded)
    x, z = untestable.T
    removed[x, z] = removed[z, x] = True
    removed &= ~constraints.excluded
    return removed if removed.any() else None


def untested_details(
    standing: BoolMatrix | None, removed: BoolMatrix | None, names: Sequence[str]
) -> dict[str, Any]:
    """The entries of a conclusion's details, by name; none where all pairs were tested.

    Args:
        standing: Edges that no site measured both ends of, shape (p, p).
        removed: Pairs without an edge that could not be tested, shape (p, p).
        names: Names of the variables.
    """
    details: dict[str, Any] = {}
    if standing is not None and standing.any():
        details[UNTESTED_DETAIL] = _named(np.argwhere(np.triu(standing)), names)
    if removed is not None:
        pairs = np.argwhere(np.triu(removed))
        details[REMOVED_DETAIL] = {
            "pairs": len(pairs),
            "shown": _named(pairs[:MOST_SHOWN], names),
            "variables": [names[v] for v in _covering(removed)],
        }
    return details


def untested_warnings(details: Mapping[str, Any]) -> tuple[str, ...]:
    """Why untested pairs make a graph doubtful, in sentences."""
    said = []
    if pairs := details.get(UNTESTED_DETAIL):
        said.append(
            "No site measured both ends of these edges, so that nothing was tested: whether they "
            "are there is open. They have no direction, and colliders are judged without them: "
            f"{_listed(pairs)}."
        )
    if removed := details.get(REMOVED_DETAIL):
        rare = first_of(removed["variables"])
        shown = _listed(removed["shown"])
        if removed["pairs"] > len(removed["shown"]):
            shown = f"{removed['pairs']} pairs with {rare}"
        said.append(
            f"Too few sites could test {shown}: at the others {rare} does not vary, has no value, "
            "or has too few rows of a category. Such pairs count as independent though nothing was "
            "tested: that they have no edge, and a direction that rests on it, says nothing. "
            "A rare category needs sites with more rows of it; evidence glm adds it up over sites "
            "that hold few, where their policies have min_cell_size = 0."
        )
    return tuple(said)


def _named(pairs: IndexArray, names: Sequence[str]) -> list[list[str]]:
    return [[names[x], names[z]] for x, z in pairs.tolist()]


def _listed(pairs: Sequence[Sequence[str]]) -> str:
    return first_of([" and ".join(pair) for pair in pairs], between="; ")


def _covering(pairs: BoolMatrix) -> list[int]:
    """A few variables that cover every pair: repeatedly the one in most pairs not yet covered."""
    left, covering = pairs.sum(axis=1), []
    covered = np.zeros(len(pairs), dtype=bool)
    while left.max(initial=0) > 0:
        variable = int(left.argmax())
        covering.append(variable)
        covered[variable] = True
        left = np.where(covered, 0, left - pairs[variable])
    return covering
