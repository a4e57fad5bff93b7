"""Sachs with its nine conditions as sites: does what was done to the cells tell directions?

    python benchmarks/sachs_conditions.py DATA_FOLDER --out benchmarks/results/sachs_conditions.json

DATA_FOLDER holds sachs/. FedPC, RFcd and FedBOSS take the 7466 rows of nine conditions, a condition
a site, as logarithms, and know nothing of what was done. Fed-CD takes the 5400 rows in three
levels, whose last column names the protein that was intervened on; two sites share the experiments
between them. SHD of the DAG and of the CPDAG is to the network of 17 edges; right and wrong count
arrows of the learnt graph.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from markdown_table import table
from measuring import parser, timed, write_report

from cipherdag import CausalGraph, FedBOSS, FedCD, Federation, FedPC, Policy, RFcd

ALGORITHMS = {
    "FedPC, stratified": FedPC(),
    "FedPC, fisher": FedPC(evidence="fisher"),
    "FedPC, votes": FedPC(evidence="vote"),
    "FedPC, pooled": FedPC(evidence="pooled"),
    "RFcd-B": RFcd(),
    "RFcd-B, every count": RFcd(),
    "RFcd-B, sum": RFcd(objective="sum"),
    "RFcd-M": RFcd(score="mdl"),
    "FedBOSS": FedBOSS(),
    "Fed-CD": FedCD(rounds=3, fit_steps=200, graphs=50, hidden=32),
}
COLUMNS = (
    "method",
    "SHD",
    "turned",
    "extra",
    "missing",
    "SHD of the CPDAG",
    "arrows right",
    "wrong",
)


def main() -> None:
    options = parser(__doc__, seed=0)
    options.add_argument("folder", type=Path)
    options.add_argument("--methods", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    arguments = options.parse_args()
    folder = arguments.folder / "sachs"
    edges = (folder / "sachs_edges_17.csv").read_text("utf-8")
    cases = []
    for name in arguments.methods:
        made = experiments if name == "Fed-CD" else conditions
        federation = made(folder, arguments.seed)
        if name.endswith("every count"):
            federation = allowing_every_count(federation)
        result, cpu = learnt(federation, name, arguments.seed)
        truth = CausalGraph.from_csv(edges, nodes=result.finding.graph.nodes)
        cases.append({"method": name, "cpu_s": round(cpu, 1), **compared(result, truth)})
        print(cases[-1], flush=True)
        write_report(arguments.out, "sachs_conditions", {"cases": cases}, markdown)


def learnt(federation: Federation, name: str, seed: int):
    """The result of an algorithm, and its processor seconds."""
    _, cpu, result = timed(federation.run, ALGORITHMS[name], seed=seed)
    return result, cpu


def conditions(folder: Path, seed: int) -> Federation:
    """A condition a site; numbers only."""
    del seed
    frame = pd.read_csv(folder / "sachs_9cond_7466.csv.gz")
    sites = {
        f"condition{number}": np.log(own.drop(columns="condition"))
        for number, own in frame.groupby("condition")
    }
    policy = Policy(allow_unprotected=True)
    return Federation.simulate(sites, protection="none", device="cpu", policy=policy)


def allowing_every_count(federation: Federation) -> Federation:
    """The same sites, none of which restricts small counts."""
    free = (
        replace(site, policy=replace(site.policy, min_cell_size=0)) for site in federation.sites
    )
    return replace(federation, sites=tuple(free))


def experiments(folder: Path, seed: int) -> Federation:
    """Two sites with half of the experiments each."""
    frame = pd.read_csv(folder / "sachs_discrete_interventional_5400.csv.gz")
    return Federation.split(
        frame.fillna({"intervened": ""}),
        2,
        seed=seed,
        interventions="intervened",
        deal="vertical",
        protection="none",
        device="cpu",
        policy=Policy(min_sites=2, allow_unprotected=True),
    )


def compared(result, truth: CausalGraph) -> dict:
    """Distances of DAG and CPDAG, and arrows by what the network says."""
    dag, arrows = result.finding.metrics(truth), set(result.finding.graph.directed)
    right = len(arrows & set(truth.directed))
    return {
        **{name: getattr(dag, name) for name in ("shd", "reverse", "extra", "miss")},
        "shd_cpdag": result.finding.metrics_cpdag(truth).shd,
        "right": right,
        "wrong": len(arrows) - right,
    }


def markdown(report: dict) -> str:
    """The methods, one a row."""
    names = ("method", "shd", "reverse", "extra", "miss", "shd_cpdag", "right", "wrong")
    rows = [[case[name] for name in names] for case in report["cases"]]
    return "\n".join([*table(COLUMNS, rows), ""])


if __name__ == "__main__":
    main()
