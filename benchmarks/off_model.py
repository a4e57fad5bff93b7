"""False positives where data are none that the tests are made for: rare categories, heavy tails.

    python benchmarks/off_model.py --out benchmarks/results/off_model

Every test is of a pair of independent columns of its own, or given s of a pair that is independent
given s, at sites that are alike: categories of which two are rare, two rare ones given a third,
four categories given three of two, counts that are nearly all zero, lognormal numbers (deviation
1.5), Student's t with two degrees of freedom, numbers whose variance follows from s or that both
depend on its square, and a number beside a rare category or beside categories given a number. Bits
of tests `stratified` are opened. A test that a kind does not do is left out of its share.
"""

from __future__ import annotations

import zlib
from itertools import groupby

import numpy as np
from calibration import ALPHAS, BATCH, Method, Site, decisions, figures
from calibration_tables import LEVEL, WORST
from markdown_table import table
from measuring import parser, write_report

LAYOUTS = {
    "50, 50, 200 and 5,000 rows": (50, 50, 200, 5000),
    "3 x 1,000": (1000,) * 3,
    "15 x 60": (60,) * 15,
    "3 x 200": (200,) * 3,
    "10 x 100": (100,) * 10,
    "2,000 and 9 x 50": (2000, *(50,) * 9),
}
CATEGORIES = NUMBERS = ("stratified", "fisher", "pooled")


def rare(rng, n, count):
    """Two columns of four categories, of which two have 1 and 2 % of the rows."""
    beyond = np.cumsum([0.01, 0.02, 0.3])
    return [(rng.random((n, count, 1)) > beyond).sum(axis=2) for _ in range(2)]


def rare_pairs(rng, n, count):
    """Two of two categories, with 2 and 3 % of the rows, and a third that halves the rows."""
    return [rng.random((n, count)) < share for share in (0.02, 0.03, 0.5)]


def zeros(rng, n, count):
    return [(rng.random((n, count)) < 0.03) * rng.integers(1, 5, (n, count)) for _ in range(2)]


def lognormal(rng, n, count):
    return [np.exp(1.5 * rng.standard_normal((n, count))) for _ in range(2)]


def student(rng, n, count):
    return [rng.standard_t(2, (n, count)) for _ in range(2)]


def uneven(rng, n, count):
    """Two numbers whose deviations are exp(0.7 s), and s."""
    s = rng.standard_normal((n, count))
    return [*(np.exp(0.7 * s) * rng.standard_normal((n, count)) for _ in range(2)), s]


def curved(rng, n, count):
    """Two numbers that both depend on the square of s, and s."""
    s = rng.standard_normal((n, count))
    return [*(s + 0.5 * s**2 + rng.standard_normal((n, count)) for _ in range(2)), s]


def given_three(rng, n, count):
    """Two columns of four categories that follow from three of two, and these."""
    given = [rng.random((n, count)) < 0.5 for _ in range(3)]
    shift = 0.15 * sum(given)
    beyond = np.cumsum([0.2, 0.2, 0.2])
    two = [(rng.random((n, count, 1)) > beyond - shift[..., None] / 3).sum(axis=2) for _ in "xy"]
    return [*two, *given]


def event(rng, n, count):
    """A category that 2 % of rows have, and a skewed number."""
    return [rng.random((n, count)) < 0.02, np.exp(rng.standard_normal((n, count)))]


def mixture(rng, n, count):
    """Three categories and a number that both follow from a number s, and s."""
    s = rng.standard_normal((n, count))
    latent = s + rng.standard_normal((n, count))
    codes = (latent > -0.5).astype(int) + (latent > 1.0)
    return [codes, s + np.exp(0.5 * s) * rng.standard_normal((n, count)), s]


WORLDS = {
    "four categories, 1, 2, 30 and 67 %": (rare, (4, 4), CATEGORIES),
    "2 and 3 % given one of two": (rare_pairs, (2, 2, 2), CATEGORIES),
    "97 % zeros": (zeros, (0, 0), NUMBERS),
    "lognormal": (lognormal, (0, 0), NUMBERS),
    "t, 2 degrees of freedom": (student, (0, 0), NUMBERS),
    "variance by s, given s": (uneven, (0, 0, 0), NUMBERS),
    "both curved in s, given s": (curved, (0, 0, 0), NUMBERS),
    "4 x 4 given 2 x 2 x 2": (given_three, (4, 4, 2, 2, 2), CATEGORIES),
    "an event of 2 % and a number": (event, (2, 0), ("stratified",)),
    "3 categories and a number given s": (mixture, (3, 0, 0), ("stratified",)),
}


def main() -> None:
    options = parser(__doc__, seed=0)
    options.add_argument("--tests", type=int, default=4000, help="tests of every cell")
    options.add_argument("--evidence", nargs="+", help="kinds of evidence; default: all that apply")
    options = options.parse_args()
    cases = [
        {"world": world, "layout": layout, "evidence": evidence, **found}
        for world in WORLDS
        for layout in LAYOUTS
        for evidence, found in measured(
            world, layout, options.tests, options.seed, options.evidence
        ).items()
    ]
    report = {"tests": options.tests, "cases": cases}
    print(markdown(report))
    write_report(options.out, "off_model", report, markdown)


def measured(
    world: str, layout: str, tests: int, seed: int, only: list[str] | None
) -> dict[str, dict]:
    """How many tests every kind of evidence does, and of those how many it finds dependent."""
    draw, categories, kinds = WORLDS[world]
    rng = np.random.default_rng((seed, zlib.crc32(f"{world} {layout}".encode())))
    outcomes = {own: [] for own in kinds if only is None or own in only}
    for start in range(0, tests, BATCH):
        count = min(BATCH, tests - start)
        sites = [
            Site(np.stack(draw(rng, n, count), axis=2).reshape(n, -1), categories * count)
            for n in LAYOUTS[layout]
        ]
        for evidence, own in outcomes.items():
            own.append(decisions(categories, method(evidence, categories), sites))
    return {evidence: figures(own) for evidence, own in outcomes.items()}


def method(evidence: str, categories: tuple[int, ...]) -> Method:
    """The kind of evidence with its default test."""
    numbers = not any(categories) and evidence not in ("stratified", "pooled")
    return Method(evidence, "fisherz" if numbers else "auto", ())


def markdown(report: dict) -> str:
    """Shares of tests that say dependent at the lower level, in bold beyond 1.5 times it."""
    kinds = list(dict.fromkeys((*CATEGORIES, *NUMBERS)))
    rows = []
    for place, own in groupby(report["cases"], key=lambda case: (case["world"], case["layout"])):
        shown = {case["evidence"]: share(case) for case in own}
        rows.append([*place, *(shown.get(kind, "") for kind in kinds)])
    return "\n".join(table(["independent columns", "sites", *kinds], rows)) + "\n"


def share(case: dict) -> str:
    rate = case["rates"][LEVEL]
    return f"**{rate:.3f}**" if rate > WORST * min(ALPHAS) else f"{rate:.3f}"


if __name__ == "__main__":
    main()
