"""The comparators of FedPC's experiments on one table, by name.

    python benchmarks/compare.py alarm_5000.csv.gz --truth alarm_edges.csv --sites 10

Splits the table unevenly over sites, as FedPC's experiments do, learns by every comparator named
(all of them by default), and prints the measures, the processor time, the source and parameters.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from comparators import registry
from measuring import timed

from cipherdag import CausalGraph, Federation, Policy, Schema


def main() -> None:
    arguments = parse()
    federation = Federation.split(
        arguments.data,
        arguments.sites,
        seed=arguments.seed,
        schema=None if arguments.schema is None else Schema.load(arguments.schema),
        policy=Policy(allow_unprotected=True),
        device="cpu",
    )
    sites = [site.table for site in federation.sites]
    truth = CausalGraph.from_csv(arguments.truth.read_text("utf-8"), nodes=sites[0].names)
    known = registry(arguments.test)
    for name in arguments.names or known:
        own = known[name]
        _, seconds, graphs = timed(own.learn, sites)
        found = "  ".join(f"{m} {v:.3g}" for m, v in own.judge(graphs, truth).items())
        print(f"{name:16} {found}  {seconds:.1f} s\n{'':16} {own.source}; {own.parameters}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--schema", type=Path)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--names", nargs="+", choices=list(registry()))
    parser.add_argument("--test", default="auto", help="CI test of those that test")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
