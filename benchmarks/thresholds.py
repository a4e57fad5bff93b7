"""Levels and power of the default test of categories, where S decides which categories occur too.

    python benchmarks/thresholds.py --out benchmarks/results/thresholds

Nested: x and y are drawn within the block that s names, as a diagnosis is within a department;
some rows are of any block; blocks stand elsewhere at every site, or halve from one to the next.
Others: a category that one site alone has, rare categories, many. Dependence, for the power: y is x
in some rows, or in some categories, or both follow from normal numbers that are correlated. One bit
of each test and level is opened, from the same sums and thresholds as in a protected run. Run it on
two revisions with one seed, and both have seen the same rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from calibration import Site
from markdown_table import table
from measuring import add_line, parser, read_lines, write_report
from scipy.special import ndtri
from table_levels import answered

LEVELS = (0.05, 0.01, 0.001)
WORST = 1.4
LAYOUTS = {
    "3 x 200": (200,) * 3,
    "10 x 100": (100,) * 10,
    "3 x 1,000": (1000,) * 3,
    "30 x 33": (33,) * 30,
    "2,000 and 9 x 50": (2000, *(50,) * 9),
}
BATCH_ROWS, BATCH_CELLS = 1_000_000, 60_000
SCATTERED = ("3 x 200", "10 x 100", "3 x 1,000")

Codes = np.ndarray
Draw = Callable[[np.random.Generator, int, tuple[int, int]], tuple[Codes, Codes, Codes]]
"""From a generator, a site's position and a shape to codes of x, y and s of that shape."""


@dataclass(frozen=True)
class World:
    """Categories of x, y and s, what draws them, at which sites, and whether x and y depend."""

    categories: tuple[int, int, int]
    draw: Draw
    layouts: tuple[str, ...]
    dependent: bool = False


def nested(blocks: int, own: int, leak: float, *, moved: bool = False, halves: bool = False):
    """x and y within the block of s, but for a share of rows."""
    share = 0.5 ** np.arange(blocks) if halves else np.ones(blocks)
    places = [np.random.default_rng(site).permutation(blocks) for site in range(64)]

    def draw(rng, site, shape):
        s = chosen(rng, share, shape)
        block = places[site][s] if moved else s

        def one():
            inside = block * own + rng.integers(0, own, shape)
            anywhere = rng.integers(0, blocks * own, shape)
            return np.where(rng.random(shape) < leak, anywhere, inside)

        return one(), one(), s

    return World((blocks * own, blocks * own, blocks), draw, SCATTERED)


def shares(x, y, given=1, *, same=0.0, where=None, layouts=SCATTERED):
    """Independent x and y; in a share of the rows y is x, where x is one of some categories."""

    def draw(rng, _, shape):
        first, second = chosen(rng, x, shape), chosen(rng, y, shape)
        here = rng.random(shape) < same
        if where is not None:
            here &= np.isin(first, where)
        second = np.where(here, np.minimum(first, len(y) - 1), second)
        return first, second, rng.integers(0, given, shape)

    return World((len(x), len(y), given), draw, layouts, same > 0)


def trend(categories: int, correlation: float, layouts):
    """Normal numbers that are correlated, cut into categories of equal size."""
    cuts = ndtri(np.arange(1, categories) / categories)

    def draw(rng, _, shape):
        first, other = rng.normal(size=(2, *shape))
        second = correlation * first + np.sqrt(1 - correlation**2) * other
        codes = np.searchsorted(cuts, first), np.searchsorted(cuts, second)
        return *codes, np.zeros(shape, dtype=int)

    return World((categories, categories, 1), draw, layouts, dependent=True)


def only_at(place: int, common, there):
    """Categories of which some are at one site alone."""

    def draw(rng, site, shape):
        share = there if site == place else common
        return chosen(rng, share, shape), chosen(rng, share, shape), np.zeros(shape, dtype=int)

    return World((len(there), len(there), 1), draw, ("10 x 100", "2,000 and 9 x 50"))


def chosen(rng, share, shape) -> Codes:
    cumulative = np.cumsum(share) / np.sum(share)
    return np.minimum(np.searchsorted(cumulative, rng.random(shape)), len(share) - 1)


RARE, ZIPF = [67, 30, 2, 1], list(1 / np.arange(1, 16))
UNEVEN = ("3 x 200", "10 x 100", "30 x 33", "2,000 and 9 x 50")
WORLDS = {
    "nested, 5 of 2, a tenth anywhere": nested(5, 2, 0.1),
    "nested, 5 of 2, three tenths anywhere": nested(5, 2, 0.3),
    "nested, 5 of 2": nested(5, 2, 0.0),
    "nested, 3 of 2": nested(3, 2, 0.1),
    "nested, 8 of 2, a fifth anywhere": nested(8, 2, 0.2),
    "nested, 2 of 5": nested(2, 5, 0.1),
    "nested, 30 of 2": nested(30, 2, 0.1),
    "nested, 5 of 2, elsewhere at every site": nested(5, 2, 0.1, moved=True),
    "nested, 4 of 2, halves": nested(4, 2, 0.05, halves=True),
    "two of 10 %": shares([9, 1], [9, 1], layouts=UNEVEN),
    "2 % and 5 %": shares([98, 2], [95, 5], layouts=UNEVEN),
    "four, two of them rare": shares(RARE, RARE, layouts=UNEVEN),
    "four that halve, given 6": shares([8, 4, 2, 1], [8, 4, 2, 1], 6, layouts=UNEVEN),
    "15 of Zipf": shares(ZIPF, ZIPF, layouts=("3 x 1,000",)),
    "four, two at one site of 10": only_at(5, [0.6, 0.4, 0.0, 0.0], [0.5, 0.3, 0.15, 0.05]),
    "two, one at one site of 10": only_at(5, [1.0, 0.0], [0.9, 0.1]),
    "two, one nearly at one site": only_at(5, [0.999, 0.001], [0.9, 0.1]),
    "3 x 3": shares([1] * 3, [1] * 3, same=0.06, layouts=("3 x 1,000",)),
    "3 x 3, same .09": shares([1] * 3, [1] * 3, same=0.09, layouts=("10 x 100", "30 x 33")),
    "10 x 10, one cell": shares([1] * 10, [1] * 10, same=0.15, where=[0], layouts=("3 x 1,000",)),
    "10 x 10, one cell of .4": shares(
        [1] * 10, [1] * 10, same=0.4, where=[0], layouts=("10 x 100", "30 x 33")
    ),
    "15 x 15, trend": trend(15, 0.12, ("3 x 1,000",)),
    "10 % x 10 %": shares([9, 1], [9, 1], same=0.05, layouts=("3 x 1,000", "30 x 33")),
    "2 % x 5 %": shares([98, 2], [95, 5], same=0.08, layouts=("3 x 1,000", "10 x 100")),
    "4 x 4 of Zipf": shares([8, 4, 2, 1], [8, 4, 2, 1], same=0.06, layouts=("3 x 1,000",)),
    "4 x 4 of Zipf, same .1": shares(
        [8, 4, 2, 1], [8, 4, 2, 1], same=0.1, layouts=("10 x 100", "30 x 33")
    ),
    "2 x 2 given 8": shares([1, 1], [1, 1], 8, same=0.08, layouts=SCATTERED),
    "four, the rare ones depend": shares(RARE, RARE, same=0.2, where=[2, 3], layouts=UNEVEN),
    "four, the others depend": shares(RARE, RARE, same=0.1, where=[0, 1], layouts=UNEVEN),
}


def main() -> None:
    options = parser(__doc__, seed=0)
    options.add_argument("--tests", type=int, default=10_000, help="tests of a cell without power")
    options.add_argument("--power", type=int, default=2000, help="tests of a cell with power")
    options.add_argument("--worlds", type=int, nargs="*", help="places of worlds; default: all")
    options.add_argument("--lines", type=Path, default=Path("thresholds.jsonl"))
    options = options.parse_args()
    names, cases = list(WORLDS), read_lines(options.lines)
    done = {(case["world"], case["sites"]) for case in cases}
    for name in names if options.worlds is None else [names[k] for k in options.worlds]:
        world = WORLDS[name]
        count = options.power if world.dependent else options.tests
        for layout in world.layouts:
            if (name, layout) in done:
                continue
            found = measured(name, layout, count, options.seed)
            head = {"world": name, "sites": layout, "power": world.dependent, "tests": count}
            cases.append(head | {"rates": found})
            add_line(options.lines, cases[-1])
            print(cases[-1], flush=True)
    cases.sort(key=lambda case: names.index(case["world"]))
    write_report(options.out, "thresholds", {"cases": cases}, markdown)


def measured(name: str, layout: str, tests: int, seed: int) -> dict[str, float]:
    """The share of tests that say dependent, by level."""
    world, rows = WORLDS[name], LAYOUTS[layout]
    rng = np.random.default_rng((seed, zlib.crc32(f"{name} {layout}".encode())))
    cells = int(np.prod(world.categories[:2]))
    batch = max(min(BATCH_ROWS // sum(rows), BATCH_CELLS // cells), 1)
    found = []
    for start in range(0, tests, batch):
        count = min(batch, tests - start)
        sites = []
        for site, n in enumerate(rows):
            columns = world.draw(rng, site, (n, count))
            codes = np.stack(columns, axis=2).reshape(n, -1)
            sites.append(Site(codes, world.categories * count))
        found.append(answered(sites, world.categories, count, least_levels))
    least = np.concatenate(found)
    return {str(level): float((least <= level).mean()) for level in LEVELS}


def least_levels(source, tests):
    """Asks for the least level at which each test says dependent."""
    return source.smallest_levels(tests, LEVELS)


def markdown(report: dict) -> str:
    """Levels in bold where they are more than 1.4 times what they should be; then the power."""
    rows = [
        [
            case["world"],
            case["sites"],
            *(shown(case, level) for level in LEVELS),
            f"{case['tests']:,}",
        ]
        for case in sorted(report["cases"], key=lambda case: case["power"])
    ]
    heads = ["categories", "sites", *(f"at {level:g}" for level in LEVELS), "tests"]
    return "\n".join(table(heads, rows)) + "\n"


def shown(case: dict, level: float) -> str:
    rate = case["rates"][str(level)]
    beyond = not case["power"] and rate > WORST * level
    return f"**{rate:.4f}**" if beyond else f"{rate:.4f}"


if __name__ == "__main__":
    main()
