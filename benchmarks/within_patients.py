"""What centring columns within patients wins and loses, at the same visit.

    python benchmarks/within_patients.py --out benchmarks/results/within_patients

10 sites have 60 patients of five visits. Numbers x and y are tested as they are, and in deviations
from their patient's mean, both with the patient named. Each test has columns of its own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from markdown_table import table
from measuring import parser, write_report
from patients import ALPHA, Kind, answered

SITES, PATIENTS, VISITS, BEFORE = 10, 60, 5, 10
"""Visits before the first that is seen let what depends on earlier ones settle."""
BATCH = 100


class World(NamedTuple):
    """How x and y come about: coefficients are of deviations with variance 1.

    Attributes:
        trait: Share of each column's variance that is the same at all visits.
        shared: Correlation of the two traits, whose cause nobody sees.
        effect: Of x on y at the same visit.
        later: Of x on y at the next visit.
        back: Of y on x at the next visit.
        follows: Autocorrelation of both.
        edge: Whether an edge between x and y is right, or wrong.
    """

    trait: float = 0.5
    shared: float = 0.0
    effect: float = 0.0
    later: float = 0.0
    back: float = 0.0
    follows: float = 0.0
    edge: str = "wrong"


WORLDS = {
    "nothing in common": World(),
    "nothing in common, visits follow": World(follows=0.5),
    "a hidden stable cause": World(shared=0.3),
    "a hidden stable cause, visits follow": World(shared=0.3, follows=0.5),
    "x acts at once": World(effect=0.09, edge="right"),
    "x acts at once, no traits": World(trait=0.0, effect=0.09, edge="right"),
    "the trait of x acts": World(shared=0.3, edge="right, between patients"),
    "x acts on the next visit": World(later=0.2),
    "x acts on the next visit, no traits": World(trait=0.0, later=0.2),
    "y acts back on the next visit": World(back=0.2),
    "both act on the next visit": World(later=0.2, back=0.2),
    "the treatment answers the value": World(trait=0.0, later=-0.2, back=0.2),
}


def main() -> None:
    options = parser(__doc__, seed=3)
    options.add_argument("--tests", type=int, default=2000, help="of every world")
    options = options.parse_args()
    cases = []
    for number, (name, world) in enumerate(WORLDS.items()):
        rng = np.random.default_rng((options.seed, number))
        found = np.zeros(2)
        for _ in range(options.tests // BATCH):
            parts = [rows(rng, world) for _ in range(SITES)]
            whose = np.repeat(np.arange(PATIENTS), VISITS)
            for place, each in enumerate((parts, [centred(part) for part in parts])):
                flat = [(part.reshape(PATIENTS * VISITS, -1), whose) for part in each]
                found[place] += answered(flat, Kind((), ()), BATCH, by_patient=True).sum()
        shares = dict(zip(("as_they_are", "centred"), found / options.tests, strict=True))
        cases.append({"world": name, "edge": world.edge, "tests": options.tests, **shares})
        print(cases[-1], flush=True)
    figures = {"alpha": ALPHA, "seed": options.seed, "cases": cases}
    write_report(options.out, "within_patients", figures, markdown)


def rows(rng, world: World) -> np.ndarray:
    """Columns x and y of each test, one after the other: shape (patients, visits, 2 BATCH)."""
    shape = PATIENTS, BATCH
    x, y = np.zeros((2, *shape))
    fresh = math.sqrt(1.0 - world.follows**2)
    seen = []
    for _ in range(BEFORE + VISITS):
        was = x, y
        x = world.follows * was[0] + world.back * was[1] + fresh * rng.normal(size=shape)
        y = world.follows * was[1] + world.later * was[0] + fresh * rng.normal(size=shape)
        y = y + world.effect * x
        seen.append(np.stack([x, y], axis=2))
    one, other = rng.normal(size=(2, *shape))
    other = world.shared * one + math.sqrt(1.0 - world.shared**2) * other
    traits = math.sqrt(world.trait) * np.stack([one, other], axis=2)
    values = math.sqrt(1.0 - world.trait) * np.stack(seen[BEFORE:], axis=1) + traits[:, None]
    return values.reshape(PATIENTS, VISITS, -1)


def centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean(axis=1, keepdims=True)


def markdown(report: dict) -> str:
    """The share of tests that find an edge, as columns are and centred within patients."""
    heads = ["columns", "an edge is", "found as they are", "found centred", "tests"]
    body = [
        [
            case["world"],
            case["edge"],
            f"{case['as_they_are']:.3f}",
            f"{case['centred']:.3f}",
            f"{case['tests']:,}",
        ]
        for case in report["cases"]
    ]
    return "\n".join(table(heads, body)) + "\n"


if __name__ == "__main__":
    main()
