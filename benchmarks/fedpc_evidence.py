"""FedPC by every kind of evidence, beside its published figures: networks x sites x samples.

    python benchmarks/fedpc_evidence.py DATA_FOLDER --networks alarm insurance --sites 3 5 10 15

DATA_FOLDER holds <network>.bif.gz. Every sample of 5000 rows is drawn anew (seed = its number) and
split unevenly; answers are masked. `pooled` runs with sites that allow every count, `pooled-11`
with the default policy, whose tables with counts below 11 never leave a site. `centralised` is PC
on all rows at one place. Finished cases are read from LINES (one JSON object per line) and not run
again, so that a run may be stopped and resumed; the tables are then written to OUT.json and OUT.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from bif import read_bif
from measuring import environment

from cipherdag import Federation, FedPC, Policy, Schema
from cipherdag.sites.schema import Column

ROWS = 5000
ALGORITHMS = {
    "centralised": FedPC(),
    "vote": FedPC(),
    "vote-code": FedPC(reference="code"),
    "weighted_p": FedPC(evidence="weighted_p"),
    "fisher": FedPC(evidence="fisher"),
    "stouffer": FedPC(evidence="stouffer"),
    "statistic": FedPC(evidence="statistic"),
    "pooled-11": FedPC(evidence="pooled"),
    "pooled": FedPC(evidence="pooled"),
}
# SHD of FedPC for 3, 5, 10 and 15 sites: Huang et al., supplement S-1-2, Tables IV to VIII
PUBLISHED = {
    "alarm": {3: 6, 5: 20, 10: 23, 15: 22},
    "insurance": {3: 24, 5: 26, 10: 33, 15: 38},
    "win95pts": {3: 53, 5: 72, 10: 72, 15: 70},
    "andes": {3: 123, 5: 120, 10: 142, 15: 171},
    "pigs": {3: 10, 5: 22, 10: 8, 15: 255},
}


def main() -> None:
    arguments = parse()
    cases = read(arguments.lines)
    done = {key(case) for case in cases}
    for network_name in arguments.networks:
        network = read_bif(arguments.folder / f"{network_name}.bif.gz")
        for seed in range(arguments.samples):
            data, schema = draw(network, seed)
            for sites in (1, *arguments.sites):
                for name in arguments.evidence:
                    case = {
                        "network": network_name,
                        "sites": sites,
                        "evidence": name,
                        "sample": seed,
                    }
                    if (sites == 1) != (name == "centralised") or key(case) in done:
                        continue
                    case |= measure(data, schema, network.graph, name, sites, seed)
                    cases.append(case)
                    with arguments.lines.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(case) + "\n")
                    print(
                        f"{network_name:10} {sites:3} sites  {name:11} sample {seed}  "
                        f"SHD {case['shd']:4}  {case['rounds']} rounds  {case['seconds']:.1f} s",
                        flush=True,
                    )
    write(arguments.out, cases)


def measure(data, schema, truth, name: str, sites: int, seed: int) -> dict:
    policy = Policy(
        min_cell_size=11 if name == "pooled-11" else 0,
        max_values=2**53,
        allow_unprotected=sites == 1,
    )
    federation = Federation.split(
        data,
        sites,
        seed=seed,
        schema=schema,
        policy=policy,
        protection="none" if sites == 1 else "masking",
        device="cpu",
    )
    started = perf_counter()
    result = federation.run(ALGORITHMS[name], seed=seed)
    metrics = result.metrics(truth)
    return {
        "shd": metrics.shd,
        "reverse": metrics.reverse,
        "extra": metrics.extra,
        "miss": metrics.miss,
        "f1": metrics.f1,
        "shd_cpdag": result.metrics_cpdag(truth).shd,
        "rounds": len(result.rounds),
        "seconds": perf_counter() - started,
        "bytes_per_site": max(result.bytes_sent_per_site.values()),
        "tests": result.details.get("tests", {}),
    }


def draw(network, seed: int):
    data = network.sample(ROWS, np.random.default_rng(seed))
    columns = [
        Column(name, "discrete", categories=network.categories[name], allow_constant=True)
        for name in network.names
    ]
    return data, Schema(tuple(columns))


def key(case: dict) -> tuple:
    return case["network"], case["sites"], case["evidence"], case["sample"]


def read(lines: Path) -> list[dict]:
    if not lines.exists():
        return []
    return [json.loads(line) for line in lines.read_text("utf-8").splitlines()]


def write(out: Path, cases: list[dict]) -> None:
    summary = [summarise(group) for group in grouped(cases)]
    report = {
        "benchmark": "fedpc_evidence",
        "rows": ROWS,
        "published": PUBLISHED,
        "cases": summary,
        "environment": environment(),
    }
    out.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    out.with_suffix(".md").write_text(markdown(summary), "utf-8")


def grouped(cases: list[dict]):
    groups: dict[tuple, list[dict]] = {}
    for case in cases:
        groups.setdefault(key(case)[:3], []).append(case)
    return groups.values()


def summarise(group: list[dict]) -> dict:
    first = group[0]
    numbers = ("shd", "reverse", "extra", "miss", "f1", "shd_cpdag", "rounds", "seconds")
    return {
        "network": first["network"],
        "sites": first["sites"],
        "evidence": first["evidence"],
        "samples": len(group),
        "shd_min": min(case["shd"] for case in group),
        "shd_max": max(case["shd"] for case in group),
        "bytes_per_site": median(case["bytes_per_site"] for case in group),
        **{name: median(case[name] for case in group) for name in numbers},
    }


def markdown(summary: list[dict]) -> str:
    found = {(s["network"], s["sites"], s["evidence"]): s for s in summary}
    networks = [name for name in PUBLISHED if any(s["network"] == name for s in summary)]
    lines = [
        "SHD of the learnt DAG: median over samples of 5000 rows (smallest-largest). `FedPC` is",
        "what the paper prints for its own sample; `centralised` does not depend on the sites.",
        "",
        "| network | sites | FedPC | " + " | ".join(ALGORITHMS) + " | samples |",
        "|---|---|---|" + "---|" * (len(ALGORITHMS) + 1),
    ]
    for network in networks:
        for sites, published in PUBLISHED[network].items():
            row = [found.get((network, 1 if n == "centralised" else sites, n)) for n in ALGORITHMS]
            if not any(row[1:]):
                continue
            shown = " | ".join("-" if s is None else spread(s) for s in row)
            samples = sorted({s["samples"] for s in row if s is not None})
            counts = "-".join(map(str, samples if len(samples) == 1 else [samples[0], samples[-1]]))
            lines.append(f"| {network} | {sites} | {published} | {shown} | {counts} |")
    lines += ["", "Cost, medians: rounds, seconds in one process, bytes that left a site.", ""]
    lines += [
        "| network | sites | evidence | rounds | seconds | MB per site |",
        "|---|---|---|---|---|---|",
    ]
    for s in sorted(summary, key=lambda s: (networks.index(s["network"]), s["sites"])):
        size = f"{s['bytes_per_site'] / 1e6:.2f}"
        cost = f"{s['rounds']:.0f} | {s['seconds']:.1f} | {size}"
        lines.append(f"| {s['network']} | {s['sites']} | {s['evidence']} | {cost} |")
    return "\n".join(lines) + "\n"


def spread(s: dict) -> str:
    return f"{s['shd']:.0f} ({s['shd_min']}-{s['shd_max']})"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--networks", nargs="+", default=["alarm", "insurance", "win95pts", "andes"]
    )
    parser.add_argument("--sites", nargs="+", type=int, default=[3, 5, 10, 15])
    parser.add_argument("--evidence", nargs="+", choices=list(ALGORITHMS), default=list(ALGORITHMS))
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--lines", type=Path, default=Path("fedpc_evidence.jsonl"))
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results/fedpc_evidence"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
