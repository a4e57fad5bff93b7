"""RFcd's account of a run: the worst-case regret, how it fell, and what noise promises.

Leaks:
    Nothing new: worst-case regrets on the grid are what RFcd opened; see `RFcd`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cipherdag.algorithms.rfcd.noise import guarantee
from cipherdag.findings.conclusion import LearntGraph, Note, Report
from cipherdag.findings.curves import Curves, Series
from cipherdag.findings.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from cipherdag.algorithms.rfcd.algorithm import RFcdOutcome

SITE_SIZES = (100, 1_000, 10_000, 100_000)


def concluded(outcome: RFcdOutcome, names: Sequence[str], *, noise: float) -> LearntGraph:
    """The best DAG and its CPDAG by name, the regret, its curve and grid, and the noise."""
    return LearntGraph.of_dag(
        names,
        outcome.dag,
        cpdag=outcome.arcs,
        details={
            "regret": outcome.regret,
            "regret_curve": list(outcome.curve),
            "regret_grid": outcome.grid,
            "candidates": outcome.candidates,
            "noise": noise,
        },
    )


def reported(found: LearntGraph) -> Report:
    """The regret in a sentence, the regret curve, and with noise its guarantee."""
    details = found.details
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
    noisy = (_promise(details, len(found.graph.nodes)),) if details.get("noise") else ()
    return Report(panels=(shown, *noisy), notes=(Note(said),))


def _promise(details: Mapping[str, Any], n_variables: int) -> Rows:
    """The guarantee for sites of some sizes; the coordinator knows the size of none."""
    found = [
        guarantee(
            details["noise"], n_graphs=details["candidates"], n_variables=n_variables, rows=rows
        )
        for rows in SITE_SIZES
    ]
    return Rows(
        title="What the noise promises to every row",
        note=f"Differential privacy of all answers of a site together, against replacing one row, "
        f"with noise of {details['noise']:g} nats on each of {details['candidates']} graphs; "
        f"delta is {found[0].delta:g}.",
        columns=("Rows of the site", "Sensitivity (nats)", "epsilon"),
        rows=tuple(
            (rows, round(own.sensitivity, 2), float(f"{own.epsilon:.3g}"))
            for rows, own in zip(SITE_SIZES, found, strict=True)
        ),
    )
