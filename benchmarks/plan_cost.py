"""What signed plans cost: wall time and bytes of the same runs before and after, in one script.

    git worktree add ../before 79d4eef
    python benchmarks/plan_cost.py alarm.csv.gz --before ../before --sites 10 --repeats 5

Each run is a process of its own with the package of one revision, the two in turns; printed are
medians and their ratios. Sites are in one process and share one replay there.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import measuring
from measuring import write_report

EVIDENCE = ("vote", "statistic", "pooled")
RUN = """
import json, sys, time
import numpy as np, pandas as pd
from cipherdag import Federation, FedPC
file, sites, evidence = sys.argv[1], int(sys.argv[2]), sys.argv[3]
data = pd.read_csv(file, dtype=str)
federation = Federation.split(data, sites, seed=0, device="cpu")
federation.run(FedPC(evidence=evidence, max_cond_size=0), seed=0)
began = time.perf_counter()
found = federation.run(FedPC(evidence=evidence), seed=0)
seconds = time.perf_counter() - began
print(json.dumps({
    "seconds": seconds,
    "rounds": len(found.rounds),
    "edges": len(found.graph.edges),
    "bytes": max(found.bytes_sent_per_site.values()),
}))
"""


def one_run(package, arguments, evidence):
    """What a run of one revision took and came to."""
    words = [sys.executable, "-c", RUN, str(arguments.data), str(arguments.sites), evidence]
    done = subprocess.run(
        words,
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(package)},
    )
    return json.loads(done.stdout.splitlines()[-1])


def medians(runs):
    """The median of every measured number."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def main():
    """Print a line for every kind of evidence, and write them all."""
    parser = measuring.parser(__doc__)
    parser.add_argument("data", type=lambda text: Path(text).resolve())
    parser.add_argument("--before", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    after = Path(__file__).resolve().parents[1]
    lines = []
    for evidence in EVIDENCE:
        runs = {"before": [], "after": []}
        for _ in range(arguments.repeats):
            for name, package in (("before", arguments.before), ("after", after)):
                runs[name].append(one_run(package, arguments, evidence))
        found = {name: medians(own) for name, own in runs.items()}
        before, now = found["before"], found["after"]
        ratios = {key: now[key] / before[key] for key in ("seconds", "bytes", "rounds")}
        lines.append({"evidence": evidence, "sites": arguments.sites, **found, "ratio": ratios})
        print(
            f"{evidence:10} {ratios['seconds']:.2f} times the time, {ratios['bytes']:.2f} times "
            f"the bytes, {ratios['rounds']:.2f} times the rounds; edges {before['edges']:.0f} and "
            f"{now['edges']:.0f}",
            flush=True,
        )
    write_report(arguments.out, "plan_cost", {"data": arguments.data.name, "cases": lines})


if __name__ == "__main__":
    main()
