"""FedPC on discrete networks: every number of sites under every protection, in one run.

    python benchmarks/fedpc_networks.py DATA_FOLDER --networks alarm pigs --sites 3 5 10 15

DATA_FOLDER holds <network>_5000.csv.gz and <network>_edges.csv. Prints and writes, per case, SHD,
seconds and bytes, and whether all protections gave the same graph and the same aggregates.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from measuring import environment

from cipherdag import CausalGraph, Federation, FedPC

PROTECTIONS = ("none", "masking", "bfv")


def main() -> None:
    arguments = parse()
    cases = []
    for network in arguments.networks:
        for sites in arguments.sites:
            case = measure(arguments.folder, network, sites, arguments.seed)
            cases.append(case)
            seconds = "  ".join(f"{p} {case['seconds'][p]:.1f} s" for p in PROTECTIONS)
            print(
                f"{network:10} {sites:3} sites   "
                f"SHD {case['shd']:4} (CPDAG {case['shd_cpdag']:4})   "
                f"F1 {case['f1']:.3f}   {case['rounds']} rounds   {seconds}   "
                f"same graphs {case['same_graphs']}   same aggregates {case['same_aggregates']}",
                flush=True,
            )
            if arguments.out is not None:
                report = {"benchmark": "fedpc_networks", "cases": cases}
                report["environment"] = environment()
                arguments.out.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


def measure(folder: Path, network: str, sites: int, seed: int) -> dict:
    data = folder / f"{network}_5000.csv.gz"
    results = {}
    for protection in PROTECTIONS:
        federation = Federation.split(data, sites, seed=seed, protection=protection)
        results[protection] = federation.run(FedPC())
    one = results["masking"]
    edges = (folder / f"{network}_edges.csv").read_text("utf-8")
    truth = CausalGraph.from_csv(edges, nodes=one.graph.nodes)
    sums = {p: tuple(report.aggregate for report in r.rounds) for p, r in results.items()}
    return {
        "network": network,
        "sites": sites,
        "seed": seed,
        "shd": one.metrics(truth).shd,
        "shd_cpdag": one.metrics_cpdag(truth).shd,
        "f1": one.metrics(truth).f1,
        "rounds": len(one.rounds),
        "seconds": {p: r.seconds for p, r in results.items()},
        "bytes_per_site": {p: max(r.bytes_sent_per_site.values()) for p, r in results.items()},
        "same_graphs": len({r.graph for r in results.values()}) == 1,
        "same_aggregates": len(set(sums.values())) == 1,
        "dag_note": one.dag_note,
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", nargs="+", default=["alarm", "insurance", "win95pts"])
    parser.add_argument("--sites", nargs="+", type=int, default=[3, 5, 10, 15])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
