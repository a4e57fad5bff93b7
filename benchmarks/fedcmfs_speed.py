"""Whole FedCMFS runs over all rows of each data set: seconds, tests per second, rounds and bytes.

    python benchmarks/fedcmfs_speed.py DATA_FOLDER --out benchmarks/results/fedcmfs_speed.json

Masking and no protection take turns, so that their ratio holds when the machine's speed drifts.
Coordinator and sites share one process: its processor time is given beside the wall time, because
other programs on the machine lengthen only the latter.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
from measuring import environment
from multilabel_data import TRAIN, MultiLabelData, load

from cipherdag import FedCMFS, Federation, Policy
from cipherdag.federation.site import Site
from cipherdag.federation.splitting import split_rows


def main() -> None:
    arguments = parse()
    report = {
        "benchmark": "fedcmfs_speed",
        "sites": arguments.sites,
        "seed": arguments.seed,
        "runs": [],
        "environment": environment(),
    }
    for name in arguments.data or TRAIN:
        data = load(arguments.folder, name)
        for test in arguments.test:
            if test == "likelihood-ratio" and data.table.kind != "mixed":
                continue
            figures = {"data": name, "rows": data.table.rows, "columns": len(data.table.names)}
            figures |= {"test": test, "repeats": arguments.repeats} | measure(data, test, arguments)
            report["runs"].append(figures)
            print(
                f"{name:10} {test:16} {figures['wall_seconds']:6.2f} s wall  "
                f"{figures['cpu_seconds']:6.2f} s CPU, {figures['ratio']:.2f} x none  "
                f"{figures['tests_per_cpu_second']:7.0f} tests/s  {figures['rounds']} rounds  "
                f"{figures['bytes_per_site'] / 1e6:.2f} MB per site  same: {figures['same']}",
                flush=True,
            )
            if arguments.out is not None:
                arguments.out.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


def measure(data: MultiLabelData, test: str, arguments) -> dict:
    """One data set and test under masking and without protection, in turns."""
    protections = ("none", "masking")
    seconds: dict[str, list[float]] = {protection: [] for protection in protections}
    busy: dict[str, list[float]] = {protection: [] for protection in protections}
    last = {}
    for repeat in range(arguments.repeats + 1):
        for protection in protections:
            federation = divided(data, protection, arguments)
            before = time.process_time()
            last[protection] = federation.run(FedCMFS(test=test))
            if repeat:  # the first turn warms up
                seconds[protection].append(last[protection].seconds)
                busy[protection].append(time.process_time() - before)
    rounds = last["masking"].rounds
    triplets = sum(int(report.label.split(", ")[1].split()[0]) for report in rounds)
    ratios = [m / n for m, n in zip(busy["masking"], busy["none"], strict=True)]
    return {
        "wall_seconds": statistics.median(seconds["masking"]),
        "cpu_seconds": statistics.median(busy["masking"]),
        "cpu_seconds_unprotected": statistics.median(busy["none"]),
        "ratio": statistics.median(ratios),
        "all_wall_seconds": seconds,
        "all_cpu_seconds": busy,
        "triplets": triplets,
        "tests_per_cpu_second": triplets * arguments.sites / statistics.median(busy["masking"]),
        "rounds": len(rounds),
        "bytes_per_site": max(last["masking"].bytes_sent_per_site.values()),
        "features": len(last["masking"].union),
        "same": len({result.to_csv() for result in last.values()}) == 1,
    }


def divided(data: MultiLabelData, protection: str, arguments) -> Federation:
    """All rows over the sites, unevenly."""
    rng = np.random.default_rng(arguments.seed)
    policy = Policy(allow_unprotected=protection == "none")
    parts = split_rows(data.table.rows, arguments.sites, rng=rng)
    sites = tuple(
        Site(f"site{number}", data.table.take(part), policy) for number, part in enumerate(parts)
    )
    return Federation(sites=sites, protection=protection, device=arguments.device)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="*", choices=list(TRAIN))
    parser.add_argument("--test", nargs="*", default=["auto"])
    parser.add_argument("--sites", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
