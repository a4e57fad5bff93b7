"""What rare cells cost the default test of categories, beside tests that have all rows.

    python benchmarks/rare_cells.py --out benchmarks/results/rare_cells

Worlds are those of `thresholds`, and each with nothing that depends; every test is of x and y alone
at level 0.01. `whole level for the sum`: the default test without the sites' own part, whose tenth
of the level goes to the sum; of two categories each. Chi-square, Fisher's exact test and its mid-p
have the table of all rows. A chi-square of few expected counts does not hold its level, so its
power is none to compare with. Then, of a Poisson count by the test's form U^2 > z^2 V + z^4 / c:
the largest level over all V up to 60, in units of the nominal one, and the least count that says
dependent where one is expected.
"""

from __future__ import annotations

import zlib

import numpy as np
from calibration import Site
from markdown_table import table
from measuring import parser, write_report
from scipy.special import ndtri
from scipy.stats import chi2, hypergeom, poisson
from table_levels import answered
from thresholds import LAYOUTS, World, shares

ALPHA = 0.01
TIES = 1e-7
WORLDS = {
    "2 % x 5 %": ([98, 2], [95, 5], 0.08, ("3 x 1,000", "10 x 100")),
    "10 % x 10 %": ([9, 1], [9, 1], 0.05, ("30 x 33",)),
    "3 x 3": ([1] * 3, [1] * 3, 0.09, ("10 x 100", "30 x 33")),
}
CONSTANTS, LEVELS = (6, 8, 10), (0.01, 0.001)
SHOWN = {
    "ours": "default test",
    "sum": "whole level for the sum",
    "pooled": "chi-square",
    "fisher": "Fisher",
    "mid": "mid-p",
}


def main() -> None:
    options = parser(__doc__, seed=0)
    options.add_argument("--tests", type=int, default=2000, help="tests of every cell")
    options = options.parse_args()
    cases = []
    for name, (x, y, same, layouts) in WORLDS.items():
        for layout in layouts:
            for share in (0.0, same):
                seed = options.seed, zlib.crc32(f"{name} {layout} {share}".encode())
                world = shares(x, y, same=share, layouts=layouts)
                rates = measured(world, LAYOUTS[layout], options.tests, np.random.default_rng(seed))
                cases.append({"world": name, "sites": layout, "same": share} | rates)
                print(cases[-1], flush=True)
    counts = [poisson_count(constant) for constant in CONSTANTS]
    figures = {"alpha": ALPHA, "tests": options.tests, "cases": cases, "counts": counts}
    write_report(options.out, "rare_cells", figures, markdown)


def measured(world: World, rows, tests: int, rng) -> dict[str, float]:
    """The share of tests that say dependent, by each test."""
    *sizes, _ = world.categories
    sites, tables = [], []
    for site, n in enumerate(rows):
        x, y, s = world.draw(rng, site, (n, tests))
        sites.append(Site(np.stack([x, y, s], axis=2).reshape(n, -1), world.categories * tests))
        cells = (x * sizes[1] + y)[:, :, None] == np.arange(np.prod(sizes))
        tables.append(cells.sum(axis=0).reshape(tests, *sizes).astype(float))
    asked = answered(sites, world.categories, tests, lambda source, of: source.p_values(of))
    found = {"ours": asked <= ALPHA, "pooled": chi_square(sum(tables)) <= ALPHA}
    if sizes == [2, 2]:
        found["sum"] = sum_exceeds(tables)
        found["fisher"], found["mid"] = (fisher(sum(tables)) <= ALPHA).T
    return {test: float(share.mean()) for test, share in found.items()}


def chi_square(tables):
    """Pearson's p-values, without empty rows and columns."""
    rows, columns = tables.sum(axis=2), tables.sum(axis=1)
    expected = rows[:, :, None] * columns[:, None] / rows.sum(axis=1)[:, None, None]
    parts = np.divide((tables - expected) ** 2, expected, where=expected > 0, out=0.0 * expected)
    freedom = ((rows > 0).sum(axis=1) - 1) * ((columns > 0).sum(axis=1) - 1)
    return np.where(freedom > 0, chi2.sf(parts.sum(axis=(1, 2)), np.maximum(freedom, 1)), 1.0)


def sum_exceeds(tables):
    """Whether the sum of the sites' scores exceeds its threshold at the whole level."""
    score, variance, z = 0.0, 0.0, -ndtri(ALPHA / 2)
    for own in tables:
        n, r, c = own.sum(axis=(1, 2)), own[:, 1].sum(axis=1), own[:, :, 1].sum(axis=1)
        score = score + own[:, 1, 1] - r * c / n
        variance = variance + r * (n - r) * c * (n - c) / (n * n * (n - 1))
    return score**2 > z**2 * variance + z**4 / 6


def fisher(tables):
    """Two-sided p-values of Fisher's test, and with half of the outcomes as likely, (T, 2)."""
    found = []
    for own in tables.astype(int):
        n, r, c = int(own.sum()), int(own[1].sum()), int(own[:, 1].sum())
        low = max(0, r + c - n)
        chance = hypergeom.pmf(np.arange(low, min(r, c) + 1), n, r, c)
        seen = chance[own[1, 1] - low]
        rarer = chance[chance < seen * (1 - TIES)].sum()
        equal = chance[abs(chance - seen) <= seen * TIES].sum()
        found.append((rarer + equal, rarer + equal / 2))
    return np.array(found)


def poisson_count(constant: int) -> dict[str, float]:
    """The largest level of a Poisson count, and the least count beyond where one is expected."""
    expected = np.exp(np.linspace(np.log(0.003), np.log(60), 4000))
    found: dict[str, float] = {"constant": constant}
    for level in LEVELS:
        z = -ndtri(level / 2)
        reach = np.sqrt(z**2 * expected + z**4 / constant)
        above = poisson.sf(np.floor(expected + reach), expected)
        below = poisson.cdf(np.ceil(expected - reach) - 1, expected)
        found[str(level)] = float((above + below).max() / level)
    z = -ndtri(ALPHA / 2)
    found["least"] = int(np.floor(1 + np.sqrt(z**2 + z**4 / constant))) + 1
    return found


def markdown(report: dict) -> str:
    """The level and the power of every test."""
    rows = [
        [
            case["world"],
            case["sites"],
            "power" if case["same"] else "level",
            *(f"{case[test]:.3f}" if test in case else "" for test in SHOWN),
        ]
        for case in report["cases"]
    ]
    heads = ["c", *(f"level at {level:g}, of {level:g}" for level in LEVELS), "least count of 1"]
    counts = [
        [str(own["constant"]), *(f"{own[str(level)]:.2f}" for level in LEVELS), str(own["least"])]
        for own in report["counts"]
    ]
    first = table(["categories", "sites", "share", *SHOWN.values()], rows)
    return "\n".join([*first, "", *table(heads, counts)]) + "\n"


if __name__ == "__main__":
    main()
