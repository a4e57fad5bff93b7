"""What signed plans cost: wall time and bytes of the same runs before and after, in one script.

    git worktree add ../before 79d4eef
    python benchmarks/plan_cost.py alarm.csv.gz --before ../before --sites 10 --repeats 5
    python benchmarks/plan_cost.py alarm.csv.gz --before ../before --flare --repeats 3

Each run is a process of its own with the package of one revision, the two in turns; printed are
medians and their ratios. Sites are in one process and share one replay there; with ``--flare`` they
are three, in processes of their own over NVIDIA FLARE, and each replays for itself.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import measuring
from markdown_table import table
from measuring import write_report

EVIDENCE = ("vote", "fisher", "pooled")
RUN = """
import json, sys, time
import numpy as np, pandas as pd
from cipherdag.sites.drafts.inference import infer_schema
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
    "edges": len(found.finding.graph.edges),
    "bytes": max(found.bytes_sent_per_site.values()),
}))
"""


OVER_FLARE = """
import contextlib, json, socket, sys, tempfile
from pathlib import Path
import pandas as pd
file, repeats, evidence, benchmarks, *purpose = sys.argv[1:]
sys.path.insert(0, benchmarks)
from hospitals import SITES, Hospitals, Schema
data = pd.read_csv(file, dtype=str)
tables = {name: data.iloc[number :: len(SITES)] for number, name in enumerate(SITES)}
with socket.socket() as free:
    free.bind(("localhost", 0))
    address = ("--host", "localhost", "--port", str(free.getsockname()[1]))
with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as up:
    hospitals = Hospitals(Path(work), address, dict.fromkeys(SITES, address))
    hospitals.enrol(tables, infer_schema(data))
    up.enter_context(hospitals.started("coordinator", "start", "--dir", hospitals.coordinator))
    for name in SITES:
        up.enter_context(hospitals.started("site", "start", "--dir", Path(work) / name))
    hospitals.wait_for_sites()
    found = {kind: [] for kind in evidence.split(",")}
    for number in range(int(repeats)):
        for kind in found:
            out = Path(work) / f"{kind}-{number}"
            words = ("run", "fedpc", "--evidence", kind, "--out", out, *purpose)
            hospitals.command("coordinator", *words, "--dir", hospitals.coordinator)
            report = json.loads((out / "result.json").read_text("utf-8"))
            found[kind].append({
                "seconds": report["seconds"],
                "rounds": report["rounds"],
                "edges": len(report["edges"]),
                "bytes": max(report["bytes_sent_per_site"].values()),
            })
    print(json.dumps(found))
"""


def said_by(package, script, *words):
    """What a script says last that runs with the package of one revision, from JSON."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(package)},
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def in_one_process(packages, arguments):
    """Runs of each revision by kind of evidence, the two in turns."""
    runs = {evidence: {name: [] for name in packages} for evidence in EVIDENCE}
    for evidence, own in runs.items():
        for _ in range(arguments.repeats):
            for name, package in packages.items():
                words = (arguments.data, arguments.sites, evidence)
                own[name].append(said_by(package, RUN, *words))
    return runs


def over_flare(packages, arguments):
    """The same of three processes, which each revision starts once."""
    runs = {evidence: {} for evidence in EVIDENCE}
    for name, package in packages.items():
        # only the later one has plans, which say what they are for
        purpose = ("--purpose", "what plans cost") if name == "after" else ()
        words = (arguments.data, arguments.repeats, ",".join(EVIDENCE), package / "benchmarks")
        for evidence, own in said_by(package, OVER_FLARE, *words, *purpose).items():
            runs[evidence][name] = own
    return runs


def medians(runs):
    """The median of every measured number."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def markdown(report):
    """A row for every kind of evidence, each measure as before, now and their ratio."""
    shown = {
        "seconds": ("s", 1.0, 2),
        "bytes": ("MB of a site", 1e-6, 2),
        "rounds": ("rounds", 1.0, 0),
    }
    heads = ["evidence", "sites", *(name for name, _, _ in shown.values())]
    rows = []
    for case in report["cases"]:
        cells = []
        for key, (_, unit, digits) in shown.items():
            before, now = (f"{case[turn][key] * unit:.{digits}f}" for turn in ("before", "after"))
            cells.append(f"{before} → {now} ({case['ratio'][key]:.2f})")
        rows.append([case["evidence"], case["sites"], *cells])
    return "\n".join(table(heads, rows)) + "\n"


def main():
    """Print a line for every kind of evidence, and write them all."""
    parser = measuring.parser(__doc__)
    parser.add_argument("data", type=lambda text: Path(text).resolve())
    parser.add_argument("--before", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--flare", action="store_true", help="three processes over NVIDIA FLARE")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    packages = {"before": arguments.before, "after": Path(__file__).resolve().parents[1]}
    measured = over_flare if arguments.flare else in_one_process
    sites = 3 if arguments.flare else arguments.sites
    lines = []
    for evidence, runs in measured(packages, arguments).items():
        found = {name: medians(own) for name, own in runs.items()}
        before, now = found["before"], found["after"]
        ratios = {key: now[key] / before[key] for key in ("seconds", "bytes", "rounds")}
        lines.append({"evidence": evidence, "sites": sites, **found, "ratio": ratios})
        print(
            f"{evidence:10} {ratios['seconds']:.2f} times the time, {ratios['bytes']:.2f} times "
            f"the bytes, {ratios['rounds']:.2f} times the rounds; edges {before['edges']:.0f} and "
            f"{now['edges']:.0f}",
            flush=True,
        )
    about = {"data": arguments.data.name, "flare": arguments.flare, "cases": lines}
    write_report(arguments.out, "plan_cost", about, markdown)


if __name__ == "__main__":
    main()
