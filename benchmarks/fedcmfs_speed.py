"""Whole FedCMFS runs over all rows of each data set: seconds, tests per second, rounds and bytes.

    python benchmarks/fedcmfs_speed.py DATA_FOLDER --out benchmarks/results/fedcmfs_speed.json

Masking and no protection take turns, so that their ratio holds when the machine's speed drifts.
Coordinator and sites share one process: its processor time is given beside the wall time, because
other programs on the machine lengthen only the latter.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
from measuring import bytes_per_site, parser, timed, write_report
from multilabel_data import TRAIN, MultiLabelData, load

from cipherdag import FedCMFS, Federation, Policy
from cipherdag.federation.site import Site, split_rows


def main() -> None:
    arguments = parse()
    report = {"sites": arguments.sites, "seed": arguments.seed, "runs": []}
    for name in arguments.data or TRAIN:
        data = load(arguments.folder, name)
        for test in arguments.test:
            if test == "regression" and data.table.kind != "mixed":
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
            write_report(arguments.out, "fedcmfs_speed", report)


def measure(data: MultiLabelData, test: str, arguments) -> dict:
    """One data set and test under masking and without protection, in turns."""
    protections = ("none", "masking")
    seconds: dict[str, list[float]] = {protection: [] for protection in protections}
    busy: dict[str, list[float]] = {protection: [] for protection in protections}
    last = {}
    for repeat in range(arguments.repeats + 1):
        for protection in protections:
            federation = divided(data, protection, arguments)
            _, cpu, last[protection] = timed(federation.run, FedCMFS(test=test))
            if repeat:  # the first turn warms up
                seconds[protection].append(last[protection].seconds)
                busy[protection].append(cpu)
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
        "bytes_per_site": bytes_per_site(last["masking"]),
        "features": len(last["masking"].finding.union),
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


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("folder", type=Path)
    options.add_argument("--data", nargs="*", choices=list(TRAIN))
    options.add_argument("--test", nargs="*", default=["auto"])
    options.add_argument("--sites", type=int, default=3)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--device", default="cpu")
    return options.parse_args()


if __name__ == "__main__":
    main()
