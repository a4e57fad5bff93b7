"""Fed-CD on Sachs, gmInt, and data from asia, sachs and alarm: 2, 4 and 10 sites, all protections.

    python benchmarks/fedcd_data.py DATA_FOLDER --lines data.jsonl --out results/fedcd_data.json

DATA_FOLDER holds sachs/, interventional/ and bn/. Every (data, sites) is one line of --lines: the
same run under every protection, through the real protocol, its SHD and whether all protections gave
the same sums and beliefs. Lines that are there already are not computed again. The training is kept
short, so the graphs are no measure of the method; ``fedcd.py`` is.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
from bif import read_bif, with_interventions
from measuring import (
    PROTECTIONS,
    add_line,
    bytes_per_site,
    parser,
    read_lines,
    same_aggregates,
    write_report,
)

from cipherdag import CausalGraph, FedCD, Federation, Policy, Training


def main() -> None:
    options = parse()
    lines = read_lines(options.lines)
    for name in options.data:
        for sites in options.sites:
            if any((line["data"], line["sites"]) == (name, sites) for line in lines):
                continue
            lines.append(measure(name, sites, options))
            add_line(options.lines, lines[-1])
            print(json.dumps(lines[-1]), flush=True)
    write_report(options.out, "fedcd_data", {"cases": lines})


def measure(name: str, sites: int, options) -> dict:
    frame, edges = load(name, options)
    regimes = frame["intervened"].fillna("").replace("", np.nan).nunique()
    deal = "vertical" if regimes >= sites else "horizontal"
    algorithm = FedCD(
        rounds=options.rounds,
        training=Training(
            epochs=1,
            fit_steps=options.fit_steps,
            graph_steps=options.graph_steps,
            batch=64,
            graphs=options.graphs,
            hidden=options.hidden,
        ),
    )
    results, started = {}, time.process_time()
    for protection in PROTECTIONS:
        federation = Federation.split(
            frame,
            sites,
            seed=options.seed,
            interventions="intervened",
            deal=deal,
            protection=protection,
            device="cpu",
            # two sites learn each other's answers from the sum: a policy must allow it
            policy=Policy(min_sites=2, allow_unprotected=protection == "none"),
        )
        results[protection] = federation.run(algorithm, seed=options.seed)
    one = results["masking"]
    truth = CausalGraph.from_csv(edges, nodes=one.finding.graph.nodes)
    beliefs = np.array([belief(result) for result in results.values()])
    return {
        "data": name,
        "sites": sites,
        "deal": deal,
        "rows": len(frame),
        "variables": len(one.finding.graph.nodes),
        "regimes": int(regimes),
        "shd": one.finding.metrics(truth).shd,
        "empty_graph_shd": len(truth.edges),
        "edges": len(one.finding.graph.edges),
        "cut": len(one.finding.details["cut"]),
        "entropies": one.finding.details["edge_entropy"],
        "same_aggregates": same_aggregates(results),
        "largest_difference": float(np.abs(beliefs - beliefs[0]).max()),
        "bytes_per_site": {p: bytes_per_site(r) for p, r in results.items()},
        "cpu_s": round(time.process_time() - started, 1),
    }


def belief(result) -> np.ndarray:
    rows = result.finding.details["belief"]
    return np.array([list(row.values()) for row in rows.values()])


def load(name: str, options) -> tuple[pd.DataFrame, str]:
    """The table, and the true edges as CSV."""
    folder = options.folder
    if name == "sachs-discrete":
        path = folder / "sachs" / "sachs_discrete_interventional_5400.csv.gz"
        edges = (folder / "sachs" / "sachs_edges_17.csv").read_text("utf-8")
        return pd.read_csv(path).fillna({"intervened": ""}), edges
    if name == "sachs-continuous":
        frame = pd.read_csv(folder / "sachs" / "sachs_9cond_7466.csv.gz")
        conditions = pd.read_csv(folder / "sachs" / "sachs_conditions.csv")
        target = conditions.set_index("condition")["target"].fillna("")
        values = np.log(frame.drop(columns="condition"))
        edges = (folder / "sachs" / "sachs_edges_17.csv").read_text("utf-8")
        return values.assign(intervened=frame["condition"].map(target)), edges
    if name == "gmint":
        frame = pd.read_csv(folder / "interventional" / "gmInt_5000.csv.gz")
        edges = (folder / "interventional" / "gmInt_edges.csv").read_text("utf-8")
        return frame.fillna({"intervened": ""}), edges
    network = read_bif(folder / "bn" / f"{name}.bif.gz")
    rng = np.random.default_rng(options.seed)
    frame = with_interventions(network, options.observational, options.per_variable, rng)
    return frame, (folder / "bn" / f"{name}_edges.csv").read_text("utf-8")


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("folder", type=Path)
    options.add_argument("--lines", type=Path, required=True)
    data = ["asia", "sachs", "sachs-discrete", "sachs-continuous", "gmint", "alarm"]
    options.add_argument("--data", nargs="+", choices=data, default=data)
    options.add_argument("--sites", nargs="+", type=int, default=[2, 4, 10])
    options.add_argument("--observational", type=int, default=2000)
    options.add_argument("--per-variable", type=int, default=50)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--fit-steps", type=int, default=40)
    options.add_argument("--graph-steps", type=int, default=40)
    options.add_argument("--graphs", type=int, default=20)
    options.add_argument("--hidden", type=int, default=16)
    return options.parse_args()


if __name__ == "__main__":
    main()
