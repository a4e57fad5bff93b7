"""FedPC of numbers at scale: many columns by sums, and a site's computing over many rows.

    python benchmarks/numbers_at_scale.py --out benchmarks/results/numbers_at_scale

Searches have the sparse linear models of `variables.py`, of three sites with `ROWS_OF_SITE` rows
each, and FedPC's defaults but for ``reveal="sums"``; all sites and the coordinator are one process.
Rows are those of one site with `COLUMNS` numbers, each of which depends on the two before it: told
is what the tests of one round take, by how many numbers are given, and the most memory beyond the
columns. Every case is a process of its own on one thread; one beyond --limit processor seconds is
given up. Finished cases stay in --lines, and what is there is not run again.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import variables
from markdown_table import table
from measuring import add_line, bytes_per_site, parser, peak_mb, read_lines, timed, write_report

from cipherdag import Federation, FedPC, Policy
from cipherdag.sites.compute.device import PROCESSOR
from cipherdag.sites.compute.score_tests.numbers import NumberScores

SITES, ROWS_OF_SITE = 3, 500
COLUMNS, TESTS, NEAR = 37, 200, 3
"""Of the rows' cases: columns, tests of a round, and how far apart the columns of a test lie."""
SEARCHES = {f"{p:,} numbers": p for p in (300, 1000, 3000, 10_000)}
ROWS = {f"{n:,} rows": n for n in (10**5, 10**6, 10**7)}
POLICY = Policy(reveal="sums", max_values=2_000_000_000, max_rounds=10_000)


def main() -> None:
    arguments = parse()
    if arguments.one:
        resource.setrlimit(resource.RLIMIT_CPU, (arguments.limit, arguments.limit + 1))
        measure = search if arguments.one in SEARCHES else rows
        print(json.dumps(measure(arguments.one, arguments.seed)))
        return
    lines = read_lines(arguments.lines)
    for case in arguments.cases:
        if case not in {line["case"] for line in lines}:
            lines.append({"case": case} | in_own_process(case, arguments))
            add_line(arguments.lines, lines[-1])
            print(lines[-1], flush=True)
    lines.sort(key=lambda line: [*SEARCHES, *ROWS].index(line["case"]))
    report = {"seed": arguments.seed, "rows_of_site": ROWS_OF_SITE, "cases": lines}
    write_report(arguments.out, "numbers_at_scale", report, markdown)


def in_own_process(case: str, arguments) -> dict:
    """Figures of one case, or a note that it was given up."""
    words = ["--one", case, "--seed", str(arguments.seed), "--limit", str(arguments.limit)]
    done = subprocess.run(
        [sys.executable, __file__, *words],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode == -signal.SIGXCPU:
        return {"note": f"given up after {arguments.limit} s"}
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


def search(case: str, seed: int) -> dict:
    """What a search takes; memory is the most of the process, whose sites hold the columns."""
    variables.ROWS = SITES * ROWS_OF_SITE
    data, schema, edges = variables.numbers(SEARCHES[case], np.random.default_rng(seed))
    federation = Federation.split(data, SITES, schema=schema, device="cpu", policy=POLICY)
    del data
    before = peak_mb()
    wall, cpu, result = timed(federation.run, FedPC(reveal="sums"), seed=seed)
    return {
        "edges": edges,
        "found": len(result.finding.graph.edges),
        "tests": sum(result.finding.details["tests"].values()),
        "seconds": wall,
        "cpu_seconds": cpu,
        "before_mb": before,
        "peak_mb": peak_mb(),
        "rounds": len(result.rounds),
        "bytes_per_site": bytes_per_site(result),
    }


def rows(case: str, seed: int) -> dict:
    """What one site's scores take."""
    n, rng = ROWS[case], np.random.default_rng(seed)
    columns = np.empty((COLUMNS, n))
    for k in range(COLUMNS):
        rng.standard_normal(out=columns[k])
        for other in range(max(k - 2, 0), k):
            for start in range(0, n, 2**16):
                part = slice(start, start + 2**16)
                columns[k, part] += 0.4 * columns[other, part]
    before = peak_mb()
    scores, nanoseconds = NumberScores(columns.__getitem__, PROCESSOR), []
    scores.answer(
        np.array([[0, COLUMNS - 1]])
    )  # a test that reads columns, and loads what it needs
    for given in range(4):
        tests = tests_given(given, rng)
        _, cpu, _ = timed(scores.answer, tests)
        nanoseconds.append(cpu / len(tests) / n * 1e9)
    peak = peak_mb()
    return {
        "rows": n,
        "nanoseconds": nanoseconds,
        "peak_mb": peak,
        "beyond_mb": peak - before,
        "bytes_per_value": (peak - before) * 1e6 / columns.size,
    }


def tests_given(count: int, rng: np.random.Generator) -> np.ndarray:
    """Tests (x, y, s1, ...) of columns near each other; all pairs where nothing is given."""
    if not count:
        return np.array([*combinations(range(COLUMNS), 2)])
    found = []
    for x in range(COLUMNS):
        pool = [v for v in range(x - NEAR, x + NEAR + 1) if v != x and 0 <= v < COLUMNS]
        for y in pool:
            others = [v for v in pool if v != y]
            found += [(x, y, *given) for given in combinations(others, count)]
    chosen = rng.permutation(len(found))[:TESTS]
    return np.array(found)[chosen]


def markdown(report: dict) -> str:
    """A table of searches, and one of rows."""
    searches, of_rows = [], []
    for case in report["cases"]:
        if "note" in case:
            (searches if case["case"] in SEARCHES else of_rows).append([case["case"], case["note"]])
        elif case["case"] in SEARCHES:
            searches.append(
                [case["case"], f"{case['edges']:,}", f"{case['found']:,}", f"{case['tests']:,}",
                 f"{case['cpu_seconds']:.1f}", f"{case['cpu_seconds'] / case['tests'] * 1e6:.1f}",
                 f"{case['peak_mb']:,.0f}", case["rounds"], f"{case['bytes_per_site'] / 1e6:,.1f}"]
            )  # fmt: skip
        else:
            of_rows.append(
                [case["case"], *(f"{own:.1f}" for own in case["nanoseconds"]),
                 f"{case['peak_mb']:,.0f}", f"{case['bytes_per_value']:.2f}"]
            )  # fmt: skip
    columns = (
        "columns", "edges", "found", "tests", "CPU s", "us a test", "peak MB", "rounds",
        "MB per site",
    )  # fmt: skip
    given = [f"ns a row and test given {k}" for k in ("nothing", 1, 2, 3)]
    head = ["rows of a site", *given, "peak MB", "bytes a value beyond the columns"]
    return "\n".join(
        [
            f"FedPC by sums, {SITES} sites of {report['rows_of_site']} rows, one thread:",
            "",
            *table(columns, searches),
            "",
            f"The scores of one site of {COLUMNS} numbers, one thread:",
            "",
            *table(head, of_rows),
            "",
        ]
    )


def parse():
    options = parser(__doc__, seed=0)
    cases = [*SEARCHES, *ROWS]
    options.add_argument("--cases", nargs="+", choices=cases, default=cases)
    options.add_argument("--limit", type=int, default=900, help="processor seconds of each")
    options.add_argument("--lines", type=Path, default=Path("numbers_at_scale.jsonl"))
    options.add_argument("--one", choices=cases, help="measure this case here, and print it")
    return options.parse_args()


if __name__ == "__main__":
    main()
