"""The comparators of FedPC's experiments, by name: each learns from a list of sites' tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from cipherdag.graphs.metrics import compare
from comparators import feddag, notears, pc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cipherdag.graphs.graph import CausalGraph
    from cipherdag.sites.table.site_table import SiteTable

MEASURES = ("shd", "reverse", "extra", "miss", "f1", "tpr", "precision")


@dataclass(frozen=True)
class Comparator:
    """One way to learn a graph over sites.

    Attributes:
        learn: From the sites' tables to the graphs that are judged.
        judged: ``mean``: mean of the measures over the graphs, of which there may be one;
            ``best``: the measures of the graph of least SHD, which takes the true graph to know.
        source: Where it is described.
        parameters: What it runs with.
    """

    learn: Callable[[Sequence[SiteTable]], list[CausalGraph]]
    judged: Literal["mean", "best"]
    source: str
    parameters: object

    def judge(self, graphs: Sequence[CausalGraph], truth: CausalGraph) -> dict[str, float]:
        """The measures of `MEASURES`, as the comparator is judged in FedPC's tables."""
        found = [compare(graph, truth) for graph in graphs]
        if self.judged == "best":
            found = [min(found, key=lambda own: own.shd)]
        return {name: float(np.mean([getattr(own, name) for own in found])) for name in MEASURES}


def registry(
    test: str = "auto", sepset: str = "max", kernel_rows: int = 1000
) -> dict[str, Comparator]:
    """All comparators by name; the arguments are for those that test (see `pc.PC`)."""
    own = pc.PC(test=test, sepset=sepset, kernel_rows=kernel_rows)
    here = "Huang et al., FedPC, supplement S-1-1"
    lone, joint, masked = notears.Notears(), notears.NotearsAdmm(), feddag.FedDag()
    with_pc = {
        "PC-Avg": (pc.every_site, "mean", f"{here} (4)"),
        "PC-Best": (pc.every_site, "best", f"{here} (5)"),
        "PC-All": (pc.pc_all, "mean", f"{here} (6)"),
        "FedPC-Simple-I": (pc.simple_1, "mean", f"{here} (7)"),
        "FedPC-Simple-II": (pc.simple_2, "mean", f"{here} (8)"),
    }
    return {
        name: Comparator(lambda sites, run=run: run(sites, own), judged, source, own)
        for name, (run, judged, source) in with_pc.items()
    } | {
        "NOTEARS-Avg": Comparator(
            lambda sites: notears.notears_avg(sites, lone),
            "mean",
            "Zheng et al. 2018, Algorithm 1; FedPC (1)",
            lone,
        ),
        "NOTEARS-ADMM": Comparator(
            lambda sites: notears.notears_admm(sites, joint),
            "mean",
            "Ng and Zhang 2022, Algorithm 1; FedPC (2)",
            joint,
        ),
        "FedDAG": Comparator(
            lambda sites: feddag.feddag(sites, masked),
            "mean",
            "Gao et al. 2023, AS-FedDAG; FedPC (3)",
            masked,
        ),
    }
