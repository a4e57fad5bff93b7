"""Sachs with its nine conditions as sites: does what was done to the cells tell directions?

    python benchmarks/sachs_conditions.py DATA_FOLDER --out benchmarks/results/sachs_conditions.json

DATA_FOLDER holds sachs/. FedPC, RFcd and FedBOSS take the 7466 rows of nine conditions, a condition
a site, as logarithms, and know nothing of what was done. Fed-CD takes the 5400 rows in three
levels, whose last column names the protein that was intervened on; two sites share the experiments
between them. SHD of the DAG and of the CPDAG is to the network of 17 edges; right and wrong count
arrows of the learnt graph. Every seed has other keys of the sites, from which what a site that
restricts small counts does to its likelihoods follows, and another division and training of Fed-CD:
tables have medians, and ranges where they differ.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
from markdown_table import table
from measuring import parser, timed, write_report

from cipherdag import CausalGraph, FedBOSS, FedCD, Federation, FedPC, Policy, RFcd, Training

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
    "Fed-CD": FedCD(rounds=3, training=Training(fit_steps=200, graphs=50, hidden=32)),
}
MEASURES = ("shd", "reverse", "extra", "miss", "shd_cpdag", "right", "wrong")
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
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--methods", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    arguments = options.parse_args()
    folder = arguments.folder / "sachs"
    edges = (folder / "sachs_edges_17.csv").read_text("utf-8")
    cases = []
    for name in arguments.methods:
        draws = [draw(folder, edges, name, seed) for seed in range(arguments.seeds)]
        medians = {key: statistics.median_low(own[key] for own in draws) for key in draws[0]}
        cases.append({"method": name, **medians, "draws": draws})
        print(cases[-1], flush=True)
        write_report(arguments.out, "sachs_conditions", {"cases": cases}, markdown)


def draw(folder: Path, edges: str, name: str, seed: int) -> dict:
    """What one seed's run of a method comes to, and its processor seconds."""
    federation = experiments(folder, seed) if name == "Fed-CD" else conditions(folder, seed)
    if name.endswith("every count"):
        federation = allowing_every_count(federation)
    _, cpu, result = timed(federation.run, ALGORITHMS[name], seed=seed)
    truth = CausalGraph.from_csv(edges, nodes=result.finding.graph.nodes)
    return {"cpu_s": round(cpu, 1), **compared(result, truth)}


def conditions(folder: Path, seed: int) -> Federation:
    """A condition a site; numbers only, and keys of the seed."""
    frame = pd.read_csv(folder / "sachs_9cond_7466.csv.gz")
    sites = {
        f"condition{number}": np.log(own.drop(columns="condition"))
        for number, own in frame.groupby("condition")
    }
    policy = Policy(allow_unprotected=True)
    federation = Federation.simulate(sites, protection="none", device="cpu", policy=policy)
    keyed = tuple(
        replace(site, keyed=lambda rows, key=f"{seed} {site.name}": keyed_digest(key, rows))
        for site in federation.sites
    )
    return replace(federation, sites=keyed)


def keyed_digest(key: str, rows: bytes) -> bytes:
    """What a real site's key makes of a digest of its rows."""
    return sha256(key.encode() + rows).digest()


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
    rows = [
        [case["method"], *(spread([own[name] for own in case["draws"]]) for name in MEASURES)]
        for case in report["cases"]
    ]
    return "\n".join([*table(COLUMNS, rows), ""])


def spread(values: list[int]) -> str:
    """The median, and the range where values differ."""
    median, least, most = statistics.median_low(values), min(values), max(values)
    return str(median) if least == most else f"{median} ({least} to {most})"


if __name__ == "__main__":
    main()
