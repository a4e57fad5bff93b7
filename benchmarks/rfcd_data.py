"""RFcd on real and generated data: 3, 5 and 7 sites, all protections.

    python benchmarks/rfcd_data.py DATA_FOLDER --out benchmarks/results/rfcd_data.json

DATA_FOLDER holds `sachs/` and `interventional/`. A row is cut unevenly over the sites by the seed;
all protections must give the same graph from the same aggregates, or the script stops. The sites
restrict no counts, as in the paper.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from measuring import PROTECTIONS, bytes_per_site, parser, same_aggregates, write_report
from polynomial_data import experiment

from cipherdag import CausalGraph, Federation, Policy, RFcd
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.sites.drafts.inference import infer_schema

SITES = (3, 5, 7)


def main() -> None:
    arguments = parse()
    rows = []
    for name, (table, truth) in data(arguments.folder).items():
        schema = infer_schema(table)
        for n_sites in SITES:
            row = {"data": name, "variables": len(truth.nodes), "sites": n_sites}
            row |= compared(table, schema, truth, n_sites, arguments.seed)
            rows.append(row)
            print(
                f"{name:22} {n_sites} sites: SHD (CPDAG) {row['shd']:3} of {row['true_edges']} "
                f"edges, found {row['edges']:3}, regret {row['regret']:9.2f} (empty "
                f"{row['empty']:.0f}), {row['rounds']} rounds, {row['seconds']['masking']:.1f} s",
                flush=True,
            )
    write_report(arguments.out, "rfcd_data", {"seed": arguments.seed, "runs": rows})


def compared(table, schema, truth, n_sites, seed):
    """The run under every protection; one row of figures."""
    results = {
        protection: Federation.split(
            table,
            n_sites,
            seed=seed,
            schema=schema,
            protection=protection,
            device="cpu",
            policy=Policy(min_cell_size=0, allow_unprotected=True),
        ).run(RFcd(searching=Searching(search="beam")))
        for protection in PROTECTIONS
    }
    if len({result.finding.graph for result in results.values()}) != 1:
        raise SystemExit("the protections disagree on the graph")
    if not same_aggregates(results):
        raise SystemExit("the protections disagree on an aggregate")
    result = results["masking"]
    metrics = result.finding.metrics_cpdag(truth)
    return {
        "shd": metrics.shd,
        "f1": round(metrics.f1, 3),
        "edges": len(result.finding.graph.edges),
        "true_edges": len(truth.edges),
        "regret": result.finding.details["regret"],
        "empty": result.finding.details["regret_curve"][0],
        "rounds": len(result.rounds),
        "seconds": {name: round(own.seconds, 2) for name, own in results.items()},
        "bytes_per_site": {name: bytes_per_site(own) for name, own in results.items()},
    }


def data(folder):
    """Tables and true graphs."""
    found = {}
    sachs = pd.read_csv(folder / "sachs" / "sachs_obs_853.csv.gz")
    found["sachs, observed"] = (sachs, edges(folder / "sachs" / "sachs_edges_17.csv", sachs))
    coded = pd.read_csv(folder / "sachs" / "sachs_discrete_interventional_5400.csv.gz")
    coded = coded[[name for name in coded if name in sachs.columns]]
    found["sachs, interventions"] = (coded, edges(folder / "sachs" / "sachs_edges_17.csv", coded))
    for name in ("asia_bnlearn", "gmInt"):
        table = pd.read_csv(folder / "interventional" / f"{name}_5000.csv.gz")
        truth = edges(folder / "interventional" / f"{name}_edges.csv", table)
        found[name] = (table[list(truth.nodes)], truth)
    for d in (5, 10, 20):
        drawn = experiment(d, 1, 3000, d, noise="gaussian", interventions=False)
        names = [f"v{k:02d}" for k in range(d)]
        table = pd.DataFrame(drawn.sites[0], columns=names)
        found[f"generated, d = {d}"] = (table, CausalGraph.from_arcs(names, drawn.dag))
    return found


def edges(path, table):
    pairs = pd.read_csv(path, dtype=str)
    names = [name for name in table.columns if name != "intervened"]
    return CausalGraph.from_edges(names, directed=list(pairs.itertuples(index=False, name=None)))


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("folder", type=Path)
    return options.parse_args()


if __name__ == "__main__":
    main()
