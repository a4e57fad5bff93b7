"""Edges that stand since no site measured both variables: what a report says of them.

Leaks:
    Nothing: the plan declares what sites measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cipherdag.graphs.edges import BoolMatrix

UNTESTED_DETAIL = "untested_edges"
"""Where a conclusion's details list them."""
_MOST_SHOWN = 10
NEVER_TOGETHER = "No site measured both, so nothing was tested: whether the edge is there is open."


def untested_edges(untested: BoolMatrix | None, names: Sequence[str]) -> dict[str, list[list[str]]]:
    """The entry of a conclusion's details, by name; none where all edges were tested."""
    if untested is None or not untested.any():
        return {}
    pairs = np.argwhere(np.triu(untested))
    return {UNTESTED_DETAIL: [[names[x], names[z]] for x, z in pairs.tolist()]}


def untested_warning(pairs: Sequence[Sequence[str]]) -> str:
    """What makes a graph with such edges doubtful, in a sentence."""
    shown = "; ".join(" and ".join(pair) for pair in pairs[:_MOST_SHOWN])
    shown += f"; and {len(pairs) - _MOST_SHOWN} more" if len(pairs) > _MOST_SHOWN else ""
    return (
        "No site measured both ends of these edges, so that nothing was tested: whether they are "
        f"there is open, and nothing is directed on the ground of them: {shown}."
    )
