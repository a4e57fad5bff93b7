"""`glm` evidence beside python-fedci: p-values of the same tests, and tests per second.

    pip install python-fedci
    python benchmarks/glm_peers.py --out benchmarks/results/glm_peers.json

python-fedci (AGPL-3.0) is a federated likelihood-ratio test on generalised linear models, by
iteratively reweighted least squares over summed matrices. Both sides get one table of continuous,
binary and multinomial columns, split over sites, and the same tests; ours run under masking with
signed messages, python-fedci in its default form with additive masks between client objects of one
process, both without constants of each site's own (CLIENT_HETEROGENIETY=0, site_effect=False). It
tests both directions and combines them; p-values are compared in the direction that we test, up to
its ridge of 0.0001. It takes one test at a time and loops over the rows of a multinomial response,
we take all tests of a layer in the same rounds, so the ratio grows with both; hence two sizes.

Where python-fedci is not installed the script says so and times ours alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from measuring import environment, installed

from cipherdag import Federation, Policy, Schema
from cipherdag.algorithms.evidence import open_evidence
from cipherdag.algorithms.questions import CITestSpec
from cipherdag.sites.policy import QUESTION_KINDS
from cipherdag.sites.schema import Column

SIZES = ((600, 4), (2000, 20))
"""Rows, and tests of each of three sizes of conditioning sets."""
CATEGORIES = (0, 2, 3, 0, 2, 4, 0, 3)


def main() -> None:
    arguments = parse()
    report = {
        "benchmark": "glm_peers",
        "sites": arguments.sites,
        "categories": CATEGORIES,
        "seed": arguments.seed,
        "cases": [compared(*size, arguments) for size in SIZES],
        "environment": environment() | {"python-fedci": installed("python-fedci")},
    }
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
        arguments.out.with_suffix(".md").write_text(markdown(report), "utf-8")


def compared(rows: int, tests_of_a_size: int, arguments) -> dict:
    """Both on one table and the same tests."""
    rng = np.random.default_rng(arguments.seed)
    data = mixed_rows(rows, rng)
    tests = [own_tests(size, tests_of_a_size, rng) for size in range(3)]
    count = sum(len(own) for own in tests)
    ours = [ours_timed(data, tests, arguments) for _ in range(arguments.repeats + 1)][1:]
    found = {"rows": rows, "tests": count, "ours": figures([own[:2] for own in ours], count)}
    found["ours"]["rounds"] = ours[-1][3]
    line("cipherdag, masking", found)
    if find_spec("fedci") is None:
        print("python-fedci is not installed: nothing to compare with")
        return found | {"peer": None}
    wall, cpu, p_values = peer_timed(data, tests, arguments.sites)
    found["peer"] = figures([(wall, cpu)], count)
    found["ratio"] = found["ours"]["tests_per_second"] / found["peer"]["tests_per_second"]
    found["cpu_ratio"] = found["peer"]["cpu_seconds"] / found["ours"]["cpu_seconds"]
    found["p_values"] = differences(np.concatenate(ours[-1][2]), p_values)
    line("python-fedci", found, who="peer")
    print(f"  {found['ratio']:.0f} times, p-values differ by {found['p_values']}", flush=True)
    return found


def markdown(report: dict) -> str:
    """One row per size."""
    intro = (
        f"{report['sites']} sites, columns of {report['categories']} categories (0: continuous). "
        "x: how many times as many; p apart: largest difference; flips: other decisions at 0.01."
    )
    lines = [
        intro,
        "",
        "| rows | tests | ours, tests/s | python-fedci, tests/s | x | x, CPU | p apart | flips |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for own in report["cases"]:
        start = f"| {own['rows']} | {own['tests']} | {own['ours']['tests_per_second']:.1f} |"
        if own["peer"] is None:
            lines.append(f"{start} not installed | | | | |")
            continue
        apart = own["p_values"]
        lines.append(
            f"{start} {own['peer']['tests_per_second']:.1f} | {own['ratio']:.0f} | "
            f"{own['cpu_ratio']:.0f} | {apart['largest']:.1e} | {apart['other_decisions']} |"
        )
    return "\n".join(lines) + "\n"


def mixed_rows(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Columns as in CATEGORIES that depend on their two left neighbours; categories are words."""
    values = np.zeros((rows, len(CATEGORIES)))
    table = {}
    for v, count in enumerate(CATEGORIES):
        pull = values[:, max(v - 2, 0) : v].sum(axis=1) * 0.4
        if count:
            noise = rng.gumbel(size=(rows, count))
            values[:, v] = (noise + np.outer(pull, np.linspace(-0.7, 0.7, count))).argmax(axis=1)
            table[f"v{v}"] = [f"c{int(own)}" for own in values[:, v]]
        else:
            values[:, v] = pull + rng.standard_normal(rows)
            table[f"v{v}"] = values[:, v]
    return pd.DataFrame(table)


def own_tests(size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct tests given ``size`` variables: rows (x, y, s1, ...), shape (count, 2 + size)."""
    drawn: dict[tuple, None] = {}
    while len(drawn) < count:
        x, y, *given = rng.permutation(len(CATEGORIES))[: size + 2].tolist()
        drawn[min(x, y), max(x, y), *sorted(given)] = None
    return np.array(list(drawn))


def ours_timed(data, tests, arguments):
    """Wall and processor seconds, p-values by size, rounds."""
    columns = [
        Column(f"v{v}", "discrete", categories=tuple(f"c{k}" for k in range(count)))
        if count
        else Column(f"v{v}", "continuous")
        for v, count in enumerate(CATEGORIES)
    ]
    open_policy = Policy(questions=QUESTION_KINDS, min_cell_size=0, max_values=2**53)
    federation = Federation.simulate(
        {f"site{k}": data.iloc[a:b] for k, (a, b) in enumerate(parts(data, arguments.sites))},
        schema=Schema(tuple(columns)),
        policy=open_policy,
        device="cpu",
    )

    def asking(n_variables, _):
        source = yield from open_evidence(
            "glm", CITestSpec(alpha=0.01), n_variables=n_variables, max_cells=4096, max_rows=1 << 20
        )
        return (yield from source.p_values(tests))

    wall, cpu = time.perf_counter(), time.process_time()
    done = federation.ask("fedpc", asking)
    return (
        time.perf_counter() - wall,
        time.process_time() - cpu,
        done.outcome,
        len(done.rounds),
    )


def peer_timed(data, tests, sites: int):
    """Wall and processor seconds, and the p-values in the direction that we test."""
    os.environ["CLIENT_HETEROGENIETY"] = "0"
    import fedci
    import polars as pl

    table = {
        name: (data[name] == "c1").to_numpy() if CATEGORIES[v] == 2 else data[name].to_numpy()
        for v, name in enumerate(data.columns)
    }
    clients = [
        fedci.Client(
            f"site{k}",
            pl.DataFrame({name: own[a:b].tolist() for name, own in table.items()}),
        )
        for k, (a, b) in enumerate(parts(data, sites))
    ]
    server = fedci.Server(clients)
    p_values = []
    wall, cpu = time.perf_counter(), time.process_time()
    for rows in tests:
        for x, y, *given in rows.tolist():
            found = server.test(f"v{x}", f"v{y}", [f"v{k}" for k in given])
            side = response(x, y)
            both = (found.lrt1, found.lrt2)
            p_values.append(next(own.p_value for own in both if own.response == f"v{side}"))
    return time.perf_counter() - wall, time.process_time() - cpu, np.array(p_values)


def parts(data, sites: int) -> list[tuple[int, int]]:
    """First and last row of every site."""
    return list(pairwise(np.linspace(0, len(data), sites + 1).astype(int).tolist()))


def response(x: int, y: int) -> int:
    """The variable that we regress: fewest categories, a continuous one last, the first of two."""
    return min((x, y), key=lambda v: (CATEGORIES[v] or 1 << 30, v))


def differences(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    apart = np.abs(ours - theirs)
    return {
        "largest": float(apart.max()),
        "median": float(np.median(apart)),
        "other_decisions": int(((ours > 0.01) != (theirs > 0.01)).sum()),
    }


def figures(taken, count: int) -> dict[str, float]:
    wall, cpu = (statistics.median(own[k] for own in taken) for k in (0, 1))
    return {
        "seconds": wall, "cpu_seconds": cpu, "every_second": [own[0] for own in taken],
        "tests_per_second": count / wall,
    }  # fmt: skip


def line(name: str, found: dict, who: str = "ours") -> None:
    own = found[who]
    print(
        f"{found['rows']} rows, {found['tests']} tests, {name}: {own['seconds']:.2f} s, "
        f"{own['cpu_seconds']:.2f} s of processor, {own['tests_per_second']:.1f} tests per second",
        flush=True,
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
