"""What Fisher's z of columns of 0 and 1 tells of a site's counts, moved test by test and once.

    python benchmarks/moved_correlations.py --out benchmarks/results/moved_correlations

Cells: how far from the rows with both of two of twenty columns they are found, for every pair, from
all tests given up to two others (172 of each pair), by who knows the rows with either. Given are
the tests of one site, or sums over two, as `stouffer` weighs them: least squares over all
correlations of the sites, which begins at the true ones; so this is the best that can be hoped for.
`one test`: by a single test of the pair at each site, moved as all were before
correlations were. Moves of tests one by one are drawn anew; moves of correlations are the site's.

Wide: how many pairs of a number of rows with 1 and a sum of their ages have the correlation that is
told of a column of 0 and 1 with whole numbers of more than 32 values, by who knows all ages: to
what it is told to, or to two standard deviations of what moves it.

Level and power: of tests of columns of 0 and 1, and of one with a normal number, given two others.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from markdown_table import table
from measuring import parser, write_report

from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest
from cipherdag.sites.compute.ci_tests.moved_test import MOVE, MovedCorrelations
from cipherdag.sites.compute.pooled.blur import Blur

COLUMNS = 20
ROWS = (50, 200, 1000)
PAIRS = list(combinations(range(COLUMNS), 2))
PLACE = {pair: place for place, pair in enumerate(PAIRS)}
UPPER = np.triu_indices(COLUMNS, 1)
PRIOR = 0.3
"""Standard deviation of a correlation beforehand."""
STEPS = 12
TOLD = 2.0**-24
LEAST = 11
BATCH = 125


def main() -> None:
    options = parser(__doc__, seed=0)
    options.add_argument("--samples", type=int, default=3)
    options.add_argument("--tests", type=int, default=10_000)
    arguments = options.parse_args()
    told = [cells(n, sites, arguments.samples) for n in ROWS for sites in (1, 2)]
    wide = [ages(n, arguments.samples) for n in ROWS]
    levels = [
        level(n, kind, effect, arguments.tests)
        for kind in ("0 and 1", "beside a number")
        for effect in (0.0, 0.1)
        for n in ROWS
    ]
    report = {"told": told, "wide": wide, "levels": levels}
    write_report(arguments.out, "moved_correlations", report, markdown)


def drawn(n: int, seed: int) -> np.ndarray:
    """Columns of 0 and 1 that all vary, none of them a combination of others, shape (n, 20)."""
    rng = np.random.default_rng(seed)
    while True:
        values = np.zeros((n, COLUMNS))
        for v in range(COLUMNS):
            base = rng.choice([0.05, 0.1, 0.2, 0.35, 0.5])
            parents = [u for u in range(v) if rng.random() < 0.12][:2]
            chance = np.clip(base + 0.25 * values[:, parents].sum(axis=1), 0.02, 0.9)
            values[:, v] = rng.random(n) < chance
        if values.std(axis=0).all() and np.linalg.matrix_rank(np.cov(values.T)) == COLUMNS:
            return values


def asked() -> list[np.ndarray]:
    """All tests given up to two others, by how many."""
    rest = {pair: [v for v in range(COLUMNS) if v not in pair] for pair in PAIRS}
    return [
        np.array([(*pair, *s) for pair in PAIRS for s in combinations(rest[pair], size)])
        for size in range(3)
    ]


TESTS = asked()
SIZES = np.concatenate([np.full(len(own), size) for size, own in enumerate(TESTS)])


def turned(inverse, i: int, j: int, a: int, b: int) -> np.ndarray:
    """By how much entry (a, b) of inverses changes with entry (i, j) of what they are of."""
    return -(inverse[:, a, i] * inverse[:, j, b] + inverse[:, a, j] * inverse[:, i, b])


def scores(correlations) -> tuple[np.ndarray, np.ndarray]:
    """The score of every partial correlation, shape (T,), and its slopes, shape (T, pairs)."""
    matrix = np.eye(COLUMNS)
    matrix[UPPER] = matrix.T[UPPER] = correlations
    found, slopes = [], []
    for places in TESTS:
        inverse = np.linalg.inv(matrix[places[:, :, None], places[:, None, :]])
        own, other, both = (
            inverse[:, 0, 0],
            inverse[:, 1, 1],
            np.sqrt(inverse[:, 0, 0] * inverse[:, 1, 1]),
        )
        partial = np.clip(-inverse[:, 0, 1] / both, -1 + 1e-6, 1 - 1e-6)
        slope = np.zeros((len(places), len(PAIRS)))
        for i, j in combinations(range(places.shape[1]), 2):
            one, two, both_ends = (
                turned(inverse, i, j, *ends) for ends in ((0, 0), (1, 1), (0, 1))
            )
            change = -both_ends / both - partial / 2 * (one / own + two / other)
            pairs = np.sort(places[:, [i, j]], axis=1).tolist()
            at = [PLACE[tuple(pair)] for pair in pairs]
            slope[np.arange(len(places)), at] += change / (1 - partial**2)
        found.append(np.arctanh(partial))
        slopes.append(slope)
    return np.concatenate(found), np.concatenate(slopes)


def solved(told, weights, first, variance):
    """Correlations of every site whose weighted scores add up to what is told, by least squares."""
    sites = len(first)
    own = np.concatenate(first)
    for _ in range(STEPS):
        parts = [scores(part) for part in np.split(own, sites)]
        left = told - sum(weights * z for z, _ in parts)
        slope = np.hstack([weights[:, None] * s for _, s in parts])
        weighed = slope.T / variance
        step = np.linalg.solve(
            weighed @ slope + np.eye(len(own)) / PRIOR**2, weighed @ left - own / PRIOR**2
        )
        own = own + step * min(1.0, 0.1 / np.abs(step).max())
        if np.abs(step).max() < 1e-8:
            break
    return np.split(own, sites)


def correlations(values) -> np.ndarray:
    return np.corrcoef(values.T)[UPPER]


def moved(values) -> np.ndarray:
    """Correlations of every pair as the site moves them."""
    test = FisherZTest(values, blur=Blur(None, values))
    pairs = np.array(PAIRS)
    z = test.evaluate(pairs[:, 0], pairs[:, 1], np.zeros((len(pairs), 0), dtype=int)).statistic
    return np.tanh(z / np.sqrt(len(values) - 3))


def cells(n: int, sites: int, samples: int) -> dict:
    """Errors of the rows with both, in rows, by how tests are moved."""
    errors: dict[str, list] = {"one test": [], "one by one": [], "once": []}
    small = {name: [] for name in errors}
    weights = np.maximum(n - SIZES - 3.0, 1.0)
    for sample in range(samples):
        values = [drawn(n, 1000 * sample + 7 * site + n) for site in range(sites)]
        true, rng = [correlations(own) for own in values], np.random.default_rng(sample)
        z = [scores(own)[0] for own in true]
        jolts = [MOVE * rng.standard_normal(len(SIZES)) / np.sqrt(weights) for _ in values]
        single = [np.tanh((a + b)[: len(PAIRS)]) for a, b in zip(z, jolts, strict=True)]
        told = sum(weights * (a + b) for a, b in zip(z, jolts, strict=True))
        each = solved(told, weights, true, sites * weights * MOVE**2)
        shaken = [moved(own) for own in values]
        told = sum(weights * scores(own)[0] for own in shaken)
        once = solved(told, weights, shaken, np.full(len(told), 1e-4))
        for name, found in zip(errors, (single, each, once), strict=True):
            for own, part in zip(found, values, strict=True):
                i, j = UPPER
                a, both = part.sum(axis=0), (part[:, i] * part[:, j]).sum(axis=0)
                spread = np.sqrt(a[i] * (n - a[i]) * a[j] * (n - a[j]))
                error = (own * spread + a[i] * a[j]) / n - both
                errors[name].append(error)
                small[name].append(error[both < LEAST])
    return {
        "rows": n,
        "sites": sites,
        "errors": {name: figures(own) for name, own in errors.items()},
        "small": {name: figures(own) for name, own in small.items()},
    }


def figures(errors: list) -> dict:
    """Root mean square, and how many of them are nearest to the true number of rows."""
    own = np.concatenate(errors)
    return {"rms": float(np.sqrt((own**2).mean())), "exact": float((np.abs(own) < 0.5).mean())}


def ages(n: int, samples: int) -> dict:
    """Of how many numbers of rows, and sums of ages, a correlation is what it is told to be."""
    found = {"exact": [], "once": []}
    for sample in range(samples):
        rng = np.random.default_rng((sample, n))
        age = rng.integers(18, 95, n).astype(float)
        values = np.column_stack([rng.random(n) < 0.1 + 0.002 * (age - 18), age])
        low, high = (np.concatenate([[0.0], np.cumsum(np.sort(age)[::way])]) for way in (1, -1))
        count = np.arange(1, n)
        test = [FisherZTest(values, blur=blur) for blur in (None, Blur(None, values))]
        nothing = np.zeros((1, 0), dtype=int)
        z = [
            float(own.evaluate(np.array([0]), np.array([1]), nothing).statistic[0]) for own in test
        ]
        spread = np.sqrt(count * (n - count) / n * ((age - age.mean()) ** 2).sum())
        for name, own, reach in zip(found, z, (TOLD, 2 * MOVE), strict=True):
            ends = [np.tanh((own + way * reach) / np.sqrt(n - 3)) for way in (-1, 1)]
            first, last = (end * spread + count * age.mean() for end in ends)
            fits = np.floor(np.minimum(last, high[count])) - np.ceil(np.maximum(first, low[count]))
            found[name].append(float(np.maximum(fits + 1, 0).sum()))
    return {"rows": n, **{name: float(np.median(own)) for name, own in found.items()}}


def level(n: int, kind: str, effect: float, tests: int) -> dict:
    """The share of tests given two columns found dependent, exact and moved."""
    rng, found = np.random.default_rng((n, len(kind), int(100 * effect))), {"exact": [], "once": []}
    for _ in range(0, tests, BATCH):
        given = rng.random((n, BATCH, 2)) < (0.5, 0.3)
        if kind == "0 and 1":
            base = 0.15 + 0.3 * given[..., 0] + 0.2 * given[..., 1]
            x = rng.random((n, BATCH)) < base
            y = rng.random((n, BATCH)) < base + effect * x
        else:
            x = given @ (0.5, 0.4) + rng.normal(size=(n, BATCH))
            y = rng.random((n, BATCH)) < 0.3 + 0.2 * given[..., 0] + effect * (x > 0.5)
        values = np.stack([x, y, *np.moveaxis(given, 2, 0)], axis=2).reshape(n, -1).astype(float)
        exact, other = FisherZTest(values), FisherZTest(values, blur=Blur(None, values))
        told = MovedCorrelations((exact,), (other,), np.ones(4 * BATCH, dtype=bool))
        places = np.arange(4 * BATCH).reshape(-1, 4)
        for name, test in (("exact", exact), ("once", told)):
            own = test.evaluate(places[:, 0], places[:, 1], places[:, 2:]).p_value
            found[name].append(own[~np.isnan(own)])
    rates = {
        name: [float((np.concatenate(own) <= alpha).mean()) for alpha in (0.01, 0.05)]
        for name, own in found.items()
    }
    return {"rows": n, "columns": kind, "effect": effect, "rates": rates}


def markdown(report: dict) -> str:
    """What is told, and what moving costs."""
    told = []
    for own in report["told"]:
        for name, of in (("all", own["errors"]), (f"below {LEAST}", own["small"])):
            parts = [f"{each['rms']:.2f}, {100 * each['exact']:.0f} %" for each in of.values()]
            told.append([own["rows"], own["sites"], name, *parts])
    wide = [[own["rows"], f"{own['exact']:g}", f"{own['once']:g}"] for own in report["wide"]]
    levels = [
        [own["columns"], own["effect"], own["rows"],
         *(f"{rate:.4f}" for name in ("exact", "once") for rate in own["rates"][name])]
        for own in report["levels"]
    ]  # fmt: skip
    lines = ["## Rows with both: error in rows, and share found exactly", ""]
    head = ("rows", "sites not known", "cells", "one test, moved", "all, moved one by one")
    lines += [*table([*head, "all, correlations moved once"], told), ""]
    lines += ["## A column of 0 and 1 beside ages: answers that fit", ""]
    lines += [*table(("rows", "exact", "correlations moved once"), wide), ""]
    lines += ["## Share found dependent", ""]
    head = ("columns", "effect", "rows", "exact, 0.01", "exact, 0.05", "moved, 0.01", "moved, 0.05")
    return "\n".join([*lines, *table(head, levels), ""])


if __name__ == "__main__":
    main()
