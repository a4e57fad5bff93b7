"""What RFcd reports beside its graph: the worst-case regret and how the search lowered it.

Leaks:
    Nothing new: worst-case regrets on the grid are what RFcd opened; see `RFcd`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cipherdag.findings.curves import Curves, Series

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cipherdag.algorithms.rfcd.algorithm import RFcdOutcome
    from cipherdag.findings.panel import Panel


def details(outcome: RFcdOutcome) -> Mapping[str, Any]:
    """The regret, its curve over the search, the grid of both, and the graphs compared."""
    return {
        "regret": outcome.regret,
        "regret_curve": list(outcome.curve),
        "regret_grid": outcome.grid,
        "candidates": outcome.candidates,
    }


def panels(outcome: RFcdOutcome) -> tuple[Panel, ...]:
    """The regret curve; none where the search has no step."""
    points = tuple((float(step), float(regret)) for step, regret in enumerate(outcome.curve))
    if not points:
        return ()
    return (
        Curves(
            title="Worst-case regret",
            note="How much worse the best graph so far scores at the site where it scores worst, "
            "than the graph which that site learnt alone.",
            x_label="step of the search",
            y_label="regret",
            series=(Series("worst case over sites", points),),
        ),
    )
