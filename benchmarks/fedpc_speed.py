"""Whole FedPC runs in one process: seconds, rounds and bytes of every protection, in one run.

    python benchmarks/fedpc_speed.py alarm_5000.csv.gz --truth alarm_edges.csv --sites 10

The protections take turns, so that the ratios hold when the machine's speed drifts.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from measuring import environment

from cipherdag import CausalGraph, Federation, FedPC

PROTECTIONS = ("none", "masking", "bfv")


def main() -> None:
    arguments = parse()
    runs: dict[str, list[float]] = {protection: [] for protection in PROTECTIONS}
    last = {}
    for repeat in range(arguments.repeats + 1):
        for protection in PROTECTIONS:
            federation = Federation.split(
                arguments.data, arguments.sites, seed=arguments.seed, protection=protection
            )
            last[protection] = federation.run(FedPC(sepset=arguments.sepset))
            if repeat:  # the first turn warms up
                runs[protection].append(last[protection].seconds)
    report = {
        "benchmark": "fedpc_speed",
        "data": arguments.data.name,
        "sites": arguments.sites,
        "sepset": arguments.sepset,
        "seed": arguments.seed,
        "repeats": arguments.repeats,
        "same_graph": len({result.graph for result in last.values()}) == 1,
        "protections": {name: figures(runs, last, name) for name in PROTECTIONS},
        "environment": environment(),
    }
    if arguments.truth is not None:
        text = arguments.truth.read_text("utf-8")
        truth = CausalGraph.from_csv(text, nodes=last["masking"].graph.nodes)
        report["shd"] = last["masking"].metrics(truth).shd
    for name, figure in report["protections"].items():
        print(
            f"{name:8} {figure['median_seconds']:7.2f} s   {figure['ratio_to_none']:5.2f} x none   "
            f"{figure['rounds']} rounds   {figure['bytes_per_site'] / 1e6:.2f} MB per site"
        )
    print(f"same graph: {report['same_graph']}   SHD: {report.get('shd', 'no truth given')}")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


def figures(runs, last, name):
    """Median, range and ratio of one protection, and what it cost."""
    ratios = [own / none for own, none in zip(runs[name], runs["none"], strict=True)]
    return {
        "median_seconds": statistics.median(runs[name]),
        "seconds": runs[name],
        "ratio_to_none": statistics.median(ratios),
        "rounds": len(last[name].rounds),
        "bytes_per_site": max(last[name].bytes_sent_per_site.values()),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--truth", type=Path)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--sepset", choices=["max", "mean", "vote"], default="max")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
