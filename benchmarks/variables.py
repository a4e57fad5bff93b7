"""What a FedPC run costs as its variables grow: processor seconds, memory and megabytes, by slopes.

    python benchmarks/variables.py --out benchmarks/results/variables

Sparse networks, three neighbours a variable on average: linear Gaussian ones (weights 0.3 to 1 of
either sign), and discrete ones of two to four categories and at most three parents, whose tables
are uniform on the simplex. Every case runs in a process of its own with the default evidence, all
sites and the coordinator in it. The sites' policy is the default one but for its limits on values
and rounds, which the pairs of 10,000 variables are beyond. Finished cases stay in the file of
results: one that is there is not run again, so that the script can be stopped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from markdown_table import table
from measuring import bytes_per_site, parser, peak_mb, timed, write_report

from cipherdag import Federation, FedPC, Schema
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.table.column import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

ROWS, DEGREE, MOST_PARENTS = 5000, 3.0, 3
CATEGORIES = ("a", "b", "c", "d")
CASES = {
    "numbers, 300": ("numbers", 300, 10),
    "numbers, 1000": ("numbers", 1000, 10),
    "numbers, 3000": ("numbers", 3000, 10),
    "numbers, 5000": ("numbers", 5000, 10),
    "numbers, 10000, three sites": ("numbers", 10000, 3),
    "categories, 100": ("categories", 100, 3),
    "categories, 300": ("categories", 300, 3),
    "categories, 1000": ("categories", 1000, 3),
}
"""Kind of columns, variables, and sites."""
POLICY = Policy(max_values=2_000_000_000, max_rounds=10_000)


def parents(p: int, most: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Of every variable its parents among those before, `DEGREE` neighbours each on average."""
    for child in range(p):
        count = min(rng.binomial(child, DEGREE / (p - 1)), most)
        yield rng.choice(child, count, replace=False) if count else np.zeros(0, dtype=np.int64)


def numbers(p: int, rng: np.random.Generator) -> tuple[pd.DataFrame, Schema, int]:
    """Rows of a linear Gaussian model, their schema, and the edges of its graph."""
    values, edges = rng.standard_normal((p, ROWS)), 0
    for child, own in enumerate(parents(p, p, rng)):
        weights = rng.uniform(0.3, 1.0, len(own)) * rng.choice([-1.0, 1.0], len(own))
        values[child] += weights @ values[own]
        edges += len(own)
    names = [f"v{k:04d}" for k in rng.permutation(p)]
    schema = Schema(tuple(Column(name, "continuous") for name in sorted(names)))
    return pd.DataFrame(values.T, columns=names)[sorted(names)], schema, edges


def categories(p: int, rng: np.random.Generator) -> tuple[pd.DataFrame, Schema, int]:
    """The same of a discrete network."""
    codes, edges = np.zeros((p, ROWS), dtype=np.int64), 0
    sizes = rng.integers(2, len(CATEGORIES) + 1, p)
    for child, own in enumerate(parents(p, MOST_PARENTS, rng)):
        place = np.zeros(ROWS, dtype=np.int64)
        for parent in own:
            place = place * sizes[parent] + codes[parent]
        tables = rng.dirichlet(np.ones(sizes[child]), int(sizes[own].prod()))
        beyond = tables.cumsum(axis=1)[place, :-1] < rng.random(ROWS)[:, None]
        codes[child] = beyond.sum(axis=1)
        edges += len(own)
    names = [f"v{k:04d}" for k in rng.permutation(p)]
    columns = [
        Column(name, "discrete", categories=CATEGORIES[:size], allow_constant=True)
        for name, size in zip(names, sizes.tolist(), strict=True)
    ]
    data = {name: np.array(CATEGORIES)[own] for name, own in zip(names, codes, strict=True)}
    return pd.DataFrame(data), Schema(tuple(columns)), edges


DRAWN: dict[str, Callable] = {"numbers": numbers, "categories": categories}


def main() -> None:
    arguments = parse()
    if arguments.one:
        print(json.dumps(measured(arguments.one, arguments.seed)))
        return
    target = arguments.out and arguments.out.with_suffix(".json")
    report = {"rows": ROWS, "cases": []}
    if target and target.exists():
        report["cases"] = json.loads(target.read_text("utf-8"))["cases"]
    done = {own["case"] for own in report["cases"]}
    for case in arguments.cases:
        if case not in done:
            report["cases"].append(in_own_process(case, arguments.seed))
            report["cases"].sort(key=lambda own: list(CASES).index(own["case"]))
            print(json.dumps(report["cases"][-1]), flush=True)
            write_report(arguments.out, "variables", report, markdown)
    write_report(arguments.out, "variables", report, markdown)


def in_own_process(case: str, seed: int) -> dict:
    """One measurement, on one thread."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", case, "--seed", str(seed)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return json.loads(done.stdout.splitlines()[-1])


def measured(case: str, seed: int) -> dict:
    """What one run takes; memory is what it adds to that of a process with the tables."""
    kind, p, sites = CASES[case]
    data, schema, edges = DRAWN[kind](p, np.random.default_rng(seed))
    federation = Federation.split(data, sites, schema=schema, device="cpu", policy=POLICY)
    del data
    before = peak_mb()
    wall, cpu, result = timed(federation.run, FedPC(), seed=seed)
    return {
        "case": case,
        "kind": kind,
        "variables": p,
        "sites": sites,
        "edges": edges,
        "found": int(result.finding.graph.skeleton().sum()) // 2,
        "tests": sum(result.finding.details["tests"].values()),
        "seconds": wall,
        "cpu_seconds": cpu,
        "before_mb": before,
        "peak_mb": peak_mb(),
        "rounds": len(result.rounds),
        "bytes_per_site": bytes_per_site(result),
    }


def markdown(report: dict) -> str:
    """One row per case, with logarithmic slopes from one number of variables to the next."""
    rows, last = [], {}
    for own in report["cases"]:
        added = own["peak_mb"] - own["before_mb"]
        slopes = ["", "", ""]
        figures = own["variables"], own["tests"], own["cpu_seconds"], max(added, 1.0)
        alike = own["kind"], own["sites"]
        if before := last.get(alike):
            steps = np.log(np.array(figures) / np.array(before))
            slopes = [f"{own:.2f}" for own in steps[1:] / steps[0]]
        last[alike] = figures
        rows.append(
            [own["kind"], f"{own['variables']:,}", own["sites"], f"{own['edges']:,}",
             f"{own['found']:,}", f"{own['tests']:,}", slopes[0], f"{own['cpu_seconds']:.1f}",
             slopes[1], f"{own['before_mb']:.0f}", f"{added:.0f}", slopes[2], own["rounds"],
             f"{own['bytes_per_site'] / 1e6:.1f}"]
        )  # fmt: skip
    head = (
        "columns", "variables", "sites", "edges", "found", "tests", "slope", "CPU s", "slope",
        "MB before", "MB more", "slope", "rounds", "MB per site",
    )  # fmt: skip
    intro = f"FedPC with its defaults, {report['rows']:,} rows in all, on one thread:"
    return "\n".join([intro, "", *table(head, rows)]) + "\n"


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    options.add_argument("--one", choices=CASES, help="measure this case here, and print it")
    return options.parse_args()


if __name__ == "__main__":
    main()
