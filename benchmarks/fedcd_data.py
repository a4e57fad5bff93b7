"""Fed-CD on Sachs, gmInt, and data from asia, sachs and alarm: 2, 4 and 10 sites, all protections.

    python benchmarks/fedcd_data.py DATA_FOLDER --lines data.jsonl --out results/fedcd_data.json

DATA_FOLDER holds sachs/, interventional/ and bn/. Every (data, sites) is one line of --lines: the
same run under every protection, through the real protocol, its SHD and whether all protections gave
the same sums and beliefs. Lines that are there already are not computed again. The training is kept
short, so the graphs are no measure of the method; ``fedcd.py`` is.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
from bayesian_networks import read_bif, with_interventions
from measuring import environment

from cipherdag import CausalGraph, FedCD, Federation, Policy

PROTECTIONS = ("none", "masking", "bfv")


def main() -> None:
    options = parse()
    options.lines.touch()
    lines = [json.loads(line) for line in options.lines.read_text("utf-8").splitlines()]
    for name in options.data:
        for sites in options.sites:
            if any((line["data"], line["sites"]) == (name, sites) for line in lines):
                continue
            lines.append(measure(name, sites, options))
            with options.lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps(lines[-1]) + "\n")
            print(json.dumps(lines[-1]), flush=True)
    if options.out is not None:
        report = {"benchmark": "fedcd_data", "environment": environment(), "cases": lines}
        options.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


def measure(name: str, sites: int, options: argparse.Namespace) -> dict:
    frame, edges = load(name, options)
    regimes = frame["intervened"].fillna("").replace("", np.nan).nunique()
    deal = "vertical" if regimes >= sites else "horizontal"
    algorithm = FedCD(
        rounds=options.rounds,
        epochs=1,
        fit_steps=options.fit_steps,
        graph_steps=options.graph_steps,
        batch=64,
        graphs=options.graphs,
        hidden=options.hidden,
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
    truth = CausalGraph.from_csv(edges, nodes=one.graph.nodes)
    beliefs = np.array([belief(result) for result in results.values()])
    return {
        "data": name,
        "sites": sites,
        "deal": deal,
        "rows": len(frame),
        "variables": len(one.graph.nodes),
        "regimes": int(regimes),
        "shd": one.metrics(truth).shd,
        "empty_graph_shd": len(truth.edges),
        "edges": len(one.graph.edges),
        "cut": len(one.details["cut"]),
        "entropies": one.details["edge_entropy"],
        "same_aggregates": len({tuple(x.aggregate for x in r.rounds) for r in results.values()})
        == 1,
        "largest_difference": float(np.abs(beliefs - beliefs[0]).max()),
        "bytes_per_site": {p: max(r.bytes_sent_per_site.values()) for p, r in results.items()},
        "cpu_s": round(time.process_time() - started, 1),
    }


def belief(result) -> np.ndarray:
    rows = result.details["belief"]
    return np.array([list(row.values()) for row in rows.values()])


def load(name: str, options: argparse.Namespace) -> tuple[pd.DataFrame, str]:
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


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    data = ["asia", "sachs", "sachs-discrete", "sachs-continuous", "gmint", "alarm"]
    parser.add_argument("--data", nargs="+", choices=data, default=data)
    parser.add_argument("--sites", nargs="+", type=int, default=[2, 4, 10])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--observational", type=int, default=2000)
    parser.add_argument("--per-variable", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--fit-steps", type=int, default=40)
    parser.add_argument("--graph-steps", type=int, default=40)
    parser.add_argument("--graphs", type=int, default=20)
    parser.add_argument("--hidden", type=int, default=16)
    return parser.parse_args()


if __name__ == "__main__":
    main()
