"""What moved tests still tell of a site's counts, and what moving them costs on alarm.

    python benchmarks/moved_tests.py DATA_FOLDER --out benchmarks/results/moved_tests

Told: the standard deviations, in rows, of the margins and of the cells of pairs of six columns of
two categories, by the information of all tests given up to so many others. An attacker knows every
cell of the six to twice the deviation of a Poisson count beforehand, how sites move tests, and all
other sites; or but for one, and has sums of two. A test told as T is a measurement with variance
4 T M**2 + 2 d M**4, see `cipherdag/sites/compute/ci_tests/moved_test.py`.

Cost: SHD of the CPDAG of FedPC with sites that restrict no small counts, and with the default.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
from fedpc_data import draw
from markdown_table import table
from measuring import parser, write_report

from cipherdag import Federation, FedPC, Policy
from cipherdag.sites.policy.policy import QUESTION_KINDS

COLUMNS, ROWS = 6, 200
MOVES = (0.1, 0.25, 0.5)
LARGEST = (0, 2, 3)
EVIDENCE = ("statistic", "fisher", "stouffer", "weighted_p")
KNOWN = 2.0
"""Deviations of a Poisson count that the attacker knows of a cell."""
STEP = 0.02


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--samples", type=int, default=3)
    arguments = options.parse_args()
    told = [
        deviations(sites, largest, move)
        for sites in (1, 2)
        for largest in LARGEST
        for move in MOVES
    ]
    costs = [
        cost(arguments.folder, sample, sites, evidence)
        for evidence in EVIDENCE
        for sites in (3, 10)
        for sample in range(arguments.samples)
    ]
    write_report(arguments.out, "moved_tests", {"told": told, "costs": costs}, markdown)


def drawn(seed: int) -> np.ndarray:
    """Rows with every configuration of the columns, shape (2**COLUMNS,)."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((ROWS, COLUMNS), dtype=int)
    for v in range(COLUMNS):
        base = rng.choice([0.05, 0.1, 0.2, 0.35, 0.5])
        parents = [u for u in range(v) if rng.random() < 0.4][:2]
        chance = np.clip(base + 0.25 * codes[:, parents].sum(axis=1), 0.02, 0.9)
        codes[:, v] = rng.random(ROWS) < chance
    places = codes @ (1 << np.arange(COLUMNS)[::-1])
    return np.bincount(places, minlength=2**COLUMNS).astype(float)


def statistics(counts, tests) -> np.ndarray:
    """Chi-squares by (n - 1) / n of every test, and degrees of freedom, shape (2, B)."""
    cube, found = counts.reshape((2,) * COLUMNS), []
    for x, y, *given in tests:
        named = sorted((x, y, *given))
        own = cube.sum(axis=tuple(v for v in range(COLUMNS) if v not in named))
        own = own.transpose([named.index(v) for v in (x, y, *given)]).reshape(2, 2, -1)
        n, a, b = own.sum(axis=(0, 1)), own[1].sum(axis=0), own[:, 1].sum(axis=0)
        margins = a * (n - a) * b * (n - b)
        varies = margins > 1e-6
        excess = (own[1, 1] * n - a * b) ** 2 * np.maximum(n - 1.0, 0.0)
        found.append(
            (np.where(varies, excess / np.where(varies, margins, 1.0), 0.0).sum(), varies.sum())
        )
    return np.array(found).T


def deviations(sites: int, largest: int, move: float) -> dict:
    """Mean standard deviations over margins and cells of pairs, before and after."""
    tests = [
        (x, y, *given)
        for x, y in combinations(range(COLUMNS), 2)
        for size in range(largest + 1)
        for given in combinations([v for v in range(COLUMNS) if v not in (x, y)], size)
    ]
    counts = [drawn(1 + 1000 * site) for site in range(sites)]
    found = [statistics(own, tests) for own in counts]
    variance = sum(4.0 * t * move**2 + 2.0 * d * move**4 for t, d in found)
    slopes = [
        [(statistics(own + STEP * unit, tests)[0] - t) / STEP for unit in np.eye(2**COLUMNS)]
        for own, (t, _) in zip(counts, found, strict=True)
    ]
    slope = np.concatenate([np.array(own) for own in slopes])
    before = np.diag(1.0 / (KNOWN**2 * (np.concatenate(counts) + 2.0)))
    whole = np.kron(np.eye(sites), np.ones((1, 2**COLUMNS)))  # how many rows there are is known
    before = before + 1e4 * whole.T @ whole
    after = before + (slope / np.maximum(variance, 1e-9)) @ slope.T
    bits = np.arange(2**COLUMNS)[:, None] >> np.arange(COLUMNS)[::-1] & 1
    pairs = np.array([bits[:, u] * bits[:, v] for u, v in combinations(range(COLUMNS), 2)])
    figures = {"sites": sites, "largest": largest, "move": move, "tests": len(tests)}
    for name, sums in (("margins", bits.T), ("pairs", pairs)):
        wide = np.pad(sums.astype(float), ((0, 0), (0, len(slope) - sums.shape[1])))
        own = [np.sqrt((wide @ np.linalg.inv(i) * wide).sum(axis=1)) for i in (before, after)]
        figures[name] = [float(np.median(deviation)) for deviation in own]
        figures[f"best of {name}"] = float(own[1].min())
    return figures


def cost(folder: Path, sample: int, sites: int, evidence: str) -> dict:
    """SHD of the CPDAG without moves and with them."""
    data, schema, truth = draw("alarm", folder, sample)
    case = {"evidence": evidence, "sites": sites, "sample": sample}
    for name, least in (("exact", 0), ("moved", 11)):
        policy = Policy(
            questions=QUESTION_KINDS, min_cell_size=least, max_values=2**53, max_tests=2**53
        )
        federation = Federation.split(
            data, sites, seed=sample, schema=schema, policy=policy, device="cpu"
        )
        result = federation.run(FedPC(evidence=evidence), seed=sample)
        case[name] = result.metrics_cpdag(truth).shd
    return case


def markdown(figures: dict) -> str:
    """What is told, and what it costs."""
    told = [
        [
            own["sites"], own["largest"], own["tests"], own["move"],
            *(f"{own[name][0]:.1f} to {own[name][1]:.1f}, best {own[f'best of {name}']:.1f}"
              for name in ("margins", "pairs")),
        ]
        for own in figures["told"]
    ]  # fmt: skip
    costs = []
    for evidence in EVIDENCE:
        for sites in (3, 10):
            cases = [
                c for c in figures["costs"] if (c["evidence"], c["sites"]) == (evidence, sites)
            ]
            shds = [", ".join(f"{c[name]:g}" for c in cases) for name in ("exact", "moved")]
            costs.append([evidence, sites, *shds])
    first = (
        "sites not known",
        "\\|S\\| up to",
        "tests",
        "move",
        "margins: rows",
        "cells of pairs: rows",
    )
    lines = ["## What is told: standard deviations in rows, before and after, medians", ""]
    lines += [*table(first, told), "", "## CPDAG SHD on alarm, by sample", ""]
    lines += table(("evidence", "sites", "exact", "moved"), costs)
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
