"""What joined categories and moved likelihoods cost RFcd where sites restrict small counts.

    python benchmarks/rfcd_policy.py DATA_FOLDER --lines rfcd_policy.jsonl

DATA_FOLDER holds ``bn/<network>.bif.gz``. Every sample is drawn anew (seed = its number), of a
network or of a linear model of ten or twenty numbers, and split unevenly over five sites, of 200 or
1000 rows in the mean. `every count`: sites that restrict none; `default`: the default policy, that
is `joined` and `moved` together. Answers are summed in the clear, which changes no result.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fedpc_data import draw
from measuring import figure_table, parser, run_cases, timed
from rfcd import driven

from cipherdag import CausalGraph, Federation, RFcd
from cipherdag.algorithms.algorithm import Facts
from cipherdag.graphs.metrics import compare
from cipherdag.sites.answers.regret_answers import table_scores
from cipherdag.sites.answers.site_view import SiteView

if TYPE_CHECKING:
    from pathlib import Path

SITES, LEAST = 5, 11
ROWS = {"few rows": 200, "many rows": 1000}
"""Of a site, in the mean."""
NAMES = ("asia", "child", "insurance", "alarm", "linear-10", "linear-20")
POLICIES = ("every count", "joined", "moved", "default")
FIGURES = (
    ("shd_cpdag", "CPDAG SHD", 0),
    ("edges", "edges", 0),
    ("cpu_seconds", "processor seconds", 1),
)


def main() -> None:
    run_cases(
        parser(__doc__),
        "rfcd_policy",
        data=[f"{name}, {rows}" for rows in ROWS for name in NAMES],
        methods=POLICIES,
        measure=measure,
        markdown=markdown,
    )


def measure(folder: Path, case: dict) -> dict:
    """One sample under one policy."""
    name, rows = case["data"].split(", ")
    data, schema, truth = draw(name, folder, case["sample"])
    data = data[: SITES * ROWS[rows]]
    made = Federation.split(data, SITES, seed=case["sample"], schema=schema, device="cpu").sites
    sites = [site(own.table, case["method"]) for own in made]
    names = made[0].table.names
    _, cpu, outcome = timed(driven, RFcd().ask(Facts(len(names), SITES)), sites)
    found = CausalGraph.from_arcs(names, outcome.arcs)
    shd = compare(found, truth.to_cpdag()).shd
    return {"shd_cpdag": shd, "edges": len(found.edges), "true_edges": len(truth.edges),
            "cpu_seconds": round(cpu, 2)}  # fmt: skip


def site(table, policy: str) -> SiteView:
    """A site that restricts small counts so far."""
    if policy in ("every count", "default"):
        least = LEAST if policy == "default" else 0
        return SiteView.of_table(table, min_cell_size=least, device="cpu")
    view = SiteView(table.codes, table.values, table.cardinalities, min_cell_size=LEAST)
    scores = partial(
        table_scores,
        table,
        device="cpu",
        min_cell_size=LEAST if policy == "joined" else 0,
        cell_keys=view.cell_keys if policy == "moved" else None,
    )
    return SiteView(None, None, table.cardinalities, make_scores=scores)


def markdown(report: dict) -> str:
    cases = report["cases"]
    data = list(dict.fromkeys(case["data"] for case in cases))
    printed = "Printed by `benchmarks/rfcd_policy.py`: the median, then every sample."
    lines = ["# RFcd where sites restrict small counts", "", printed, ""]
    for field, title, digits in FIGURES:
        lines += [f"## {title}", "", *figure_table(cases, data, POLICIES, field, digits), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
