"""RFcd's account of a run: the worst-case regret and how it fell."""

from __future__ import annotations

from dataclasses import dataclass

from cipherdag.algorithms.algorithm import Facts
from cipherdag.arrays import BoolMatrix
from cipherdag.findings.axes import Curves, Series
from cipherdag.findings.finding import Note, Report
from cipherdag.findings.graph import LearntGraph


@dataclass(frozen=True, slots=True)
class RFcdOutcome:
    """What an RFcd run concludes, by position; p variables.

    Attributes:
        dag: The best DAG found, directed edges of shape (p, p).
        arcs: Its CPDAG, shape (p, p): True where i -> j or i - j (undirected edges both ways).
        regret: The objective of the DAG, in nats (``bic``) or bits (``mdl``), on the grid.
        curve: The smallest objective after every step of the search, the empty graph's first.
        grid: Distance of two values on the grid.
        candidates: How many graphs were compared. Where Markov-equivalent graphs have the same
            objective, the sites are asked about one of them.
    """

    dag: BoolMatrix
    arcs: BoolMatrix
    regret: float
    curve: tuple[float, ...]
    grid: float
    candidates: int


def concluded(outcome: RFcdOutcome, facts: Facts) -> LearntGraph:
    """The best DAG and its CPDAG by name, the regret, its curve and grid."""
    return LearntGraph.of_dag(
        facts.names,
        outcome.dag,
        cpdag=outcome.arcs,
        open_edges=facts.determined.without_direction(
            outcome.arcs | outcome.arcs.T, by_scores=True
        ),
        details={
            "regret": outcome.regret,
            "regret_curve": list(outcome.curve),
            "regret_grid": outcome.grid,
            "candidates": outcome.candidates,
        },
    )


def reported(conclusion: LearntGraph) -> Report:
    """The regret in a sentence, and its curve."""
    details = conclusion.details
    curve = details["regret_curve"]
    said = (
        f"Worst-case regret {details['regret']:.3f} (empty graph {curve[0]:.3f}), to the nearest "
        f"{details['regret_grid']:g}, after {details['candidates']} candidate graphs"
    )
    points = tuple((float(step), float(regret)) for step, regret in enumerate(curve))
    shown = Curves(
        title="Worst-case regret",
        note="How much worse the best graph so far scores at the site where it scores worst, than "
        "the graph which that site learnt alone.",
        x_label="step of the search",
        y_label="regret",
        series=(Series("worst case over sites", points),),
    )
    return Report(panels=(shown,), notes=(Note(said),))
