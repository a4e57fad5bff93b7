"""FedPC on discrete networks: every number of sites under every protection, in one run.

    python benchmarks/fedpc_networks.py DATA_FOLDER --networks alarm pigs --sites 3 5 10 15

DATA_FOLDER holds <network>_5000.csv.gz and <network>_edges.csv. Prints and writes, per case, SHD,
seconds and bytes, and whether all protections gave the same graph and the same aggregates.
"""

from __future__ import annotations

from pathlib import Path

from measuring import PROTECTIONS, bytes_per_site, parser, same_aggregates, write_report

from cipherdag import CausalGraph, Federation, FedPC


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
            write_report(arguments.out, "fedpc_networks", {"cases": cases})


def measure(folder: Path, network: str, sites: int, seed: int) -> dict:
    data = folder / f"{network}_5000.csv.gz"
    results = {}
    for protection in PROTECTIONS:
        federation = Federation.split(data, sites, seed=seed, protection=protection)
        results[protection] = federation.run(FedPC())
    one = results["masking"]
    edges = (folder / f"{network}_edges.csv").read_text("utf-8")
    truth = CausalGraph.from_csv(edges, nodes=one.finding.graph.nodes)
    return {
        "network": network,
        "sites": sites,
        "seed": seed,
        "shd": one.finding.metrics(truth).shd,
        "shd_cpdag": one.finding.metrics_cpdag(truth).shd,
        "f1": one.finding.metrics(truth).f1,
        "rounds": len(one.rounds),
        "seconds": {p: r.seconds for p, r in results.items()},
        "bytes_per_site": {p: bytes_per_site(r) for p, r in results.items()},
        "same_graphs": len({r.graph for r in results.values()}) == 1,
        "same_aggregates": same_aggregates(results),
        "dag_note": one.finding.dag_note,
    }


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("folder", type=Path)
    options.add_argument("--networks", nargs="+", default=["alarm", "insurance", "win95pts"])
    options.add_argument("--sites", nargs="+", type=int, default=[3, 5, 10, 15])
    return options.parse_args()


if __name__ == "__main__":
    main()
