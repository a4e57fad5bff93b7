"""A gate that leaves each site out, before tables of all sites are summed: what it would give.

    OMP_NUM_THREADS=1 python benchmarks/table_gate.py --out benchmarks/results/table_gate

Rows of the network asia, split unevenly; all tables of two and of three variables. `local` is the
rule that stands: a table is withheld where any site has a count of 1 to 10. `gate` withholds it
where, without some site, all others together have such a count of a cell. One site may lie: it puts
11 into every word. Then the gate lets all pass, and the sums tell it cells in which the others have
1 to 10 rows. At the local rule a lie opens nothing, since each site looks at its own counts. The
gate is the secure comparison itself, over all parties in this process; sums of the same tables take
8 bytes a cell and site.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from markdown_table import table
from measuring import parser, write_report
from mpc_kernel import Cohort

from cipherdag.federation.site import split_rows
from cipherdag.graphs.networks import asia
from cipherdag.predicates import Predicates

LEAST = 11
SITES, ROWS = (4, 5, 10), (1_000, 5_000)
SIZES = (2, 3)
SUM_BYTES = 8


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--draws", type=int, default=20)
    arguments = options.parse_args()
    cases = []
    for n_sites in SITES:
        cohort = Cohort(n_sites)
        for n_rows in ROWS:
            cases.append(case_of(cohort, n_sites, n_rows, arguments.draws))
            print(cases[-1], flush=True)
    write_report(arguments.out, "table_gate", {"cases": cases}, markdown)


def case_of(cohort: Cohort, n_sites: int, n_rows: int, draws: int) -> dict:
    """Shares of tables that each rule lets be summed, what a liar reads, and what a gate costs."""
    opened, told, cells = {"local": [], "gate": [], "gate, one site lies": []}, [], 0
    seconds, sent = [], []
    for seed in range(draws):
        counts, sizes = tables(np.random.default_rng((seed, n_sites, n_rows)), n_sites, n_rows)
        others = counts.sum(axis=0) - counts
        words = np.minimum(counts, LEAST)[:, None] * (1 - np.eye(n_sites, dtype=int))[..., None]
        predicates = gate(sizes, n_sites)
        starts, number = np.cumsum(sizes) - sizes, 2 * seed + (n_rows == ROWS[-1]) * 2 * draws
        liar = seed % n_sites
        lying = words.copy()
        lying[liar] = LEAST
        unsafe, _ = cohort.run(predicates, vectors(words), number)
        seconds.append(sum(cohort.seconds.values()))
        sent.append(sum(cohort.sent.values()))
        lied, _ = cohort.run(predicates, vectors(lying), number + 1)
        expected = ((others > 0) & (others < LEAST)).any(axis=0)
        if not (unsafe == np.logical_or.reduceat(expected, starts)).all():
            raise AssertionError("the gate says something else than the counts")
        small = ((counts > 0) & (counts < LEAST)).any(axis=0)
        opened["local"].append(1.0 - np.logical_or.reduceat(small, starts).mean())
        opened["gate"].append(1.0 - unsafe.mean())
        opened["gate, one site lies"].append(1.0 - lied.mean())
        seen = (others[liar] > 0) & (others[liar] < LEAST) & np.repeat(~lied, sizes)
        told.append(int(seen.sum()))
        cells = int(sizes.sum())
    return {
        "sites": n_sites,
        "rows": n_rows,
        "draws": draws,
        "tables": len(sizes),
        "opened": {rule: round(float(np.mean(each)), 3) for rule, each in opened.items()},
        "cells": cells,
        "told": round(float(np.mean(told)), 1),
        "comparisons": cells * n_sites,
        "seconds": round(float(np.median(seconds)), 2),
        "mb": round(float(np.median(sent)) / 1e6, 2),
        "mb_of_sums": round(SUM_BYTES * cells * n_sites / 1e6, 3),
    }


def tables(rng: np.random.Generator, n_sites: int, n_rows: int):
    """Counts of all cells at every site, shape (sites, cells), and the cells of every table."""
    data = asia().sample(n_rows, rng).to_numpy() == "yes"
    sets = [each for size in SIZES for each in combinations(range(data.shape[1]), size)]
    sizes = np.array([2 ** len(each) for each in sets])
    counts = [
        np.concatenate([
            np.bincount(data[rows][:, each] @ (1 << np.arange(len(each))), minlength=2 ** len(each))
            for each in sets
        ])
        for rows in split_rows(n_rows, n_sites, rng=rng)
    ]  # fmt: skip
    return np.array(counts), sizes


def gate(sizes, n_sites: int) -> Predicates:
    """Whether 0 < w < 11 for any word of a table; a cell has a word for each site left out."""
    count = int(sizes.sum())
    each, one = np.arange(n_sites * count), np.ones(n_sites * count, dtype=np.int64)
    return Predicates(
        0 * one,
        n_sites * LEAST * one,
        n_sites * sizes,
        np.stack([each, each, each, -one], axis=1),
        np.stack([each, each, LEAST * one], axis=1),
        0 * one,
    )


def vectors(words):
    """Words by site, left out and cell, as the forms have them: cell by cell, then left out."""
    return words.transpose(0, 2, 1).reshape(len(words), -1).astype(np.int64)


def markdown(figures: dict) -> str:
    """One line a case."""
    lines = [
        [
            f"{case['sites']}, {case['rows']:,}",
            *(f"{case['opened'][rule]:.2f}" for rule in case["opened"]),
            f"{case['told']:.1f} of {case['cells']}",
            f"{case['comparisons']:,}",
            f"{case['seconds']:.2f}",
            f"{case['mb']:.1f}",
            f"{case['mb_of_sums']:.3f}",
        ]
        for case in figures["cases"]
    ]
    first = figures["cases"][0]
    titles = [
        "sites, rows",
        *(f"tables summed: {rule}" for rule in first["opened"]),
        "cells of 1 to 10 rows that the liar reads",
        "comparisons",
        "processor seconds of all",
        "MB of all, gate",
        "MB of all, sums",
    ]
    return "\n".join(table(titles, lines)) + "\n"


if __name__ == "__main__":
    main()
