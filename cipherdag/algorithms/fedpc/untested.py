"""Pairs that nothing was tested of: edges that stand, and edges that were taken off.

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
FALLEN_DETAIL = "untested_separations"
"""Where they tell of pairs without an edge that no test could be made of."""
NEVER_TOGETHER = "No site measured both, so nothing was tested: whether the edge is there is open."


def supported(
    p_value: float, pair: tuple[int, int], given: Collection[int] | None, fallen: BoolMatrix | None
) -> float | None:
    """The support of a separation; None where its edge fell untested."""
    return None if not given and fallen is not None and fallen[pair] else p_value


def support_told(
    p_value: float, pair: tuple[int, int], given: Collection[int] | None, fallen: BoolMatrix | None
) -> str:
    """The same in words."""
    support = supported(p_value, pair, given, fallen)
    return "not tested" if support is None else f"support {support:.3g}"


def fallen_untested(pairs: IndexArray, known: Constraints) -> BoolMatrix | None:
    """Pairs whose edges fell untested, shape (p, p), symmetric; None where there are none.

    Args:
        pairs: What the source of tests says of them, shape (B, 2).
        known: What is known of the variables: what has no edge by that was not to be tested.
    """
    fallen = np.zeros_like(known.apart)
    fallen[pairs[:, 0], pairs[:, 1]] = fallen[pairs[:, 1], pairs[:, 0]] = True
    fallen &= ~known.apart
    return fallen if fallen.any() else None


def untested_details(
    standing: BoolMatrix | None, fallen: BoolMatrix | None, names: Sequence[str]
) -> dict[str, Any]:
    """The entries of a conclusion's details, by name; none where all pairs were tested.

    Args:
        standing: Edges that no site measured both ends of, shape (p, p).
        fallen: Pairs without an edge that no test could be made of, shape (p, p).
        names: Of the variables.
    """
    details: dict[str, Any] = {}
    if standing is not None and standing.any():
        details[UNTESTED_DETAIL] = _named(np.argwhere(np.triu(standing)), names)
    if fallen is not None:
        pairs = np.argwhere(np.triu(fallen))
        details[FALLEN_DETAIL] = {
            "pairs": len(pairs),
            "shown": _named(pairs[:MOST_SHOWN], names),
            "variables": [names[v] for v in _covering(fallen)],
        }
    return details


def untested_warnings(details: Mapping[str, Any]) -> tuple[str, ...]:
    """What makes a graph with such pairs doubtful, in sentences."""
    said = []
    if pairs := details.get(UNTESTED_DETAIL):
        said.append(
            "No site measured both ends of these edges, so that nothing was tested: whether they "
            "are there is open. They have no direction, and colliders are judged without them: "
            f"{_listed(pairs)}."
        )
    if fallen := details.get(FALLEN_DETAIL):
        shown = _listed(fallen["shown"])
        if fallen["pairs"] > len(fallen["shown"]):
            variables = first_of(fallen["variables"])
            shown = f"{fallen['pairs']} pairs with {variables}"
        rare = first_of(fallen["variables"])
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
    """Few variables of which every pair has one: again and again that of most pairs left."""
    left, found = pairs.sum(axis=1), []
    covered = np.zeros(len(pairs), dtype=bool)
    while left.max(initial=0) > 0:
        variable = int(left.argmax())
        found.append(variable)
        covered[variable] = True
        left = np.where(covered, 0, left - pairs[variable])
    return found
