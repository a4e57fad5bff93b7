"""False positives of the default test of two categories, from 2 x 2 to 15 x 15.

    python benchmarks/table_levels.py --out benchmarks/results/table_levels

Every test is of a pair x, y of its own, independent given nothing or given a third column of 8
categories. Categories are uneven, and alike at all sites or every site's own; or each is half as
frequent as the one before. One bit of each test is opened, from the same sums and thresholds as in
a protected run.
"""

from __future__ import annotations

import zlib
from itertools import groupby, product
from pathlib import Path

import numpy as np
from calibration import FEWEST, Site
from markdown_table import table
from measuring import add_line, parser, read_lines, write_report
from plain_runs import driven

from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.presence import Presence

ALPHA = 0.01
WORST = 1.5
SHAPES = ((2, 2), (3, 3), (4, 4), (8, 8), (12, 10), (15, 15))
GIVEN = (1, 8)
LAYOUTS = {
    "3 x 200": (200,) * 3,
    "10 x 100": (100,) * 10,
    "3 x 2,000": (2000,) * 3,
    "10 x 2,000": (2000,) * 10,
}
WORLDS = ("uneven", "own", "halves")
BATCH_CELLS, BATCH_ROWS = 40_000, 2_000_000
"""Cells of tables, and codes of a column, that are held at a time."""
CONCENTRATION = 2.0


def main() -> None:
    options = parser(__doc__, seed=0)
    options.add_argument("--tests", type=int, default=2000, help="tests of every cell")
    options.add_argument("--shapes", type=int, nargs="*", help="places of tables; default: all")
    options.add_argument("--sites", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    options.add_argument("--lines", type=Path, default=Path("table_levels.jsonl"))
    options = options.parse_args()
    cases = read_lines(options.lines)
    done = {tuple(case[own] for own in ("shape", "given", "sites", "world")) for case in cases}
    shapes = SHAPES if options.shapes is None else [SHAPES[k] for k in options.shapes]
    for shape, given, layout, world in product(shapes, GIVEN, options.sites, WORLDS):
        name = f"{shape[0]} x {shape[1]}", given, layout, world
        if name in done:
            continue
        found = measured((*shape, given), layout, world, options.tests, options.seed)
        head = dict(zip(("shape", "given", "sites", "world"), name, strict=True))
        cases.append(head | {"tests": options.tests, "rate": found})
        add_line(options.lines, cases[-1])
        print(cases[-1], flush=True)
    cases.sort(key=place)
    write_report(options.out, "table_levels", {"alpha": ALPHA, "cases": cases}, markdown)


def place(case: dict) -> tuple[int, ...]:
    """Where a case stands in the table."""
    shapes = [f"{rows} x {columns}" for rows, columns in SHAPES]
    return (
        shapes.index(case["shape"]),
        case["given"],
        list(LAYOUTS).index(case["sites"]),
        WORLDS.index(case["world"]),
    )


def measured(categories: tuple[int, ...], layout: str, world: str, tests: int, seed: int) -> float:
    """The share of independent tests found dependent."""
    rng = np.random.default_rng((seed, zlib.crc32(f"{categories} {layout} {world}".encode())))
    cells, rows = int(np.prod(categories[:2])), sum(LAYOUTS[layout])
    batch = max(min(BATCH_CELLS // cells // 4, BATCH_ROWS // rows), 50)
    dependent = []
    for start in range(0, tests, batch):
        count = min(batch, tests - start)
        parts = drawn(rng, categories, LAYOUTS[layout], world, count)
        sites = [Site(own, categories * count) for own in parts]
        p_values = answered(sites, categories, count, lambda source, tests: source.p_values(tests))
        dependent.append(p_values <= ALPHA)
    return float(np.concatenate(dependent).mean())


def drawn(rng, categories, rows: tuple[int, ...], world: str, count: int) -> list[np.ndarray]:
    """Codes of every site, shape (rows, 3 count): x and y independent given s."""
    sites = len(rows)
    chances = [chances_of(rng, world, sites, count, categories[2], k) for k in categories[:2]]
    parts = []
    for site, n in enumerate(rows):
        s = rng.integers(0, categories[2], (n, count))
        columns = [one_of_each(rng, own[site][np.arange(count), s]) for own in chances]
        parts.append(np.stack([*columns, s], axis=2).reshape(n, -1))
    return parts


def chances_of(rng, world: str, sites: int, count: int, given: int, levels: int) -> np.ndarray:
    """Distributions given s, shape (sites, count, given, levels)."""
    shape = (sites, count, given, levels)
    if world == "halves":
        share = 0.5 ** np.arange(levels)
        return np.broadcast_to(share / share.sum(), shape)
    own = sites if world == "own" else 1
    found = rng.dirichlet(np.full(levels, CONCENTRATION), (own, count, given))
    return np.broadcast_to(found, shape)


def one_of_each(rng, chances: np.ndarray) -> np.ndarray:
    below = np.cumsum(chances, axis=-1)[..., :-1]
    return (rng.random(chances.shape[:-1])[..., None] > below).sum(axis=-1)


def answered(sites: list[Site], categories, count: int, ask) -> np.ndarray:
    """What is asked by bits of the tests of x and y given s, which of one category is left out.

    ``ask`` puts the tests to the source of evidence.
    """
    columns = np.arange(3 * count).reshape(-1, 3)
    tests = [columns[:0, :2], columns] if categories[2] > 1 else [columns[:, :2]]
    spec = CITestSpec(alpha=ALPHA, name="auto")
    settings = EvidenceSettings(
        spec=spec,
        n_variables=3 * count,
        min_contributors=FEWEST,
        max_rows=1 << 14,
        present=Presence(len(sites)),
    )

    def asking():
        source = yield from EVIDENCE["stratified"].source(settings, closed=True)
        return (yield from ask(source, tests))

    return driven(asking(), sites)[-1]


def markdown(report: dict) -> str:
    """The highest share over the worlds, in bold beyond 1.5 times the level."""
    rows = []
    places = ("shape", "given", "sites")
    for head, own in groupby(report["cases"], key=lambda case: [case[k] for k in places]):
        cases = list(own)
        rows.append([*head, shown(max(case["rate"] for case in cases)), f"{cases[0]['tests']:,}"])
    heads = ["table", "configurations", "sites", "dependent", "tests of each world"]
    return "\n".join(table(heads, rows)) + "\n"


def shown(rate: float) -> str:
    return f"**{rate:.4f}**" if rate > WORST * ALPHA else f"{rate:.4f}"


if __name__ == "__main__":
    main()
