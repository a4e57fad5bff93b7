"""How often intervals of effects hold the truth, and what a wrong model does to them.

    python benchmarks/effect_coverage.py --out benchmarks/results/effect_coverage
    python benchmarks/effect_coverage.py --runs 100

Rows are drawn anew in every run, and dealt to sites that are alike. `effect_batches.py` estimates a
hundred runs at once; of each hundred the first is answered from by the code that sites run, without
protection, and both have to agree; of `standardise` all are. A number and a category act on
treatment and outcome; all models have main effects. *right*: they act so. In *outcome wrong* the
number acts on the outcome by its square, too, in *treatment wrong* on the treatment, in *both
wrong* on both. The treatment does more where the category is 1, which `linear` has no term for.
`standardise` adjusts for three bands of the number: in *bands* these act, in *bands too wide* the
number itself does. The truth is that of ten million rows. Bias and spread are those of the
estimates, the error is the mean of the standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from effect_sites import BATCH_RUNS, NAMES, estimate, over_runs
from markdown_table import table
from measuring import parser, write_report

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORLDS = ("right", "outcome wrong", "treatment wrong", "both wrong")
OUTCOMES = ("number", "category")
ESTIMATORS = ("regression", "ipw", "aipw", "linear")
BANDS = ("bands", "bands too wide")
CUTS = (-0.5, 0.5)
CASES = (
    *((world, estimator) for world in WORLDS for estimator in ESTIMATORS),
    *((world, "standardise") for world in BANDS),
)
SITES = 4
ROWS = 1000
BATCH = 1_000_000


@dataclass(frozen=True, slots=True)
class World:
    """How rows come about."""

    name: str
    outcome: str

    def causes(self, rng: np.random.Generator, rows: int) -> tuple[NDArray, NDArray]:
        """A number and a category that act on treatment and outcome."""
        age, sex = rng.normal(size=rows), (rng.random(rows) < 0.4) * 1.0
        return (np.digitize(age, CUTS) - 1.0 if self.name == "bands" else age), sex

    def chance(self, age: NDArray, sex: NDArray) -> NDArray:
        """Of the treatment."""
        wrong = self.name in ("treatment wrong", "both wrong")
        push = 0.4 * age + 0.6 * (age**2 - 1.0) if wrong else 0.8 * age
        return 1.0 / (1.0 + np.exp(-(push - 0.8 - 0.5 * sex)))

    def mean(self, age: NDArray, sex: NDArray, drug: NDArray) -> NDArray:
        """Of the outcome, for a category on the scale of logits."""
        wrong = self.name in ("outcome wrong", "both wrong")
        push = 0.5 * age + 0.5 * (age**2 - 1.0) if wrong else 0.7 * age
        return 0.8 * drug + push + 0.4 * sex + 0.3 * drug * sex

    def response(self, mean: NDArray) -> NDArray:
        """What is expected of a row."""
        return mean if self.outcome == "number" else 1.0 / (1.0 + np.exp(-mean))

    def truth(self, rng: np.random.Generator) -> float:
        """The difference if all were treated and if none were."""
        found = []
        for _ in range(10):
            age, sex = self.causes(rng, BATCH)
            arms = (self.response(self.mean(age, sex, np.full(BATCH, own))) for own in (0.0, 1.0))
            none, treated = arms
            found.append(float((treated - none).mean()))
        return float(np.mean(found))

    def draw(self, rng: np.random.Generator, rows: int) -> NDArray:
        """Rows as `NAMES` has their columns, shape (rows, 4)."""
        age, sex = self.causes(rng, rows)
        drug = (rng.random(rows) < self.chance(age, sex)) * 1.0
        expected = self.response(self.mean(age, sex, drug))
        if self.outcome == "number":
            cured = expected + rng.normal(size=rows)
        else:
            cured = (rng.random(rows) < expected) * 1.0
        age = np.digitize(age, CUTS) if self.name in BANDS else age
        return np.column_stack([age, cured, drug, sex])

    @property
    def categories(self) -> tuple[int, ...]:
        """Of age, cured, drug and sex."""
        age = len(CUTS) + 1 if self.name in BANDS else 0
        return age, 0 if self.outcome == "number" else 2, 2, 2


def cell(world: World, estimator: str, truth: float, runs: int, seed: int) -> dict:
    """The figures of an estimator in a world."""
    rng = np.random.default_rng(seed)
    found = []
    for done in range(0, runs, BATCH_RUNS):
        count = min(BATCH_RUNS, runs - done)
        whole = np.array([world.draw(rng, ROWS) for _ in range(count)])
        whole = whole.reshape(count, SITES, ROWS // SITES, len(NAMES))
        if estimator == "standardise":
            found += [estimate(world, [*own], estimator) for own in whole]
            continue
        estimates, errors, widths, refused = over_runs(world, whole, estimator)
        assert (refused == "").all(), (world, estimator, refused)
        found += zip(estimates, errors, estimates - widths, estimates + widths, strict=True)
    estimates, errors, low, high = np.array(found).T
    return {
        "world": world.name,
        "outcome": world.outcome,
        "estimator": estimator,
        "truth": truth,
        "bias": float(estimates.mean() - truth),
        "spread": float(estimates.std(ddof=1)),
        "error": float(errors.mean()),
        "covered": float(((low <= truth) & (truth <= high)).mean()),
    }


def markdown(report: dict) -> str:
    """Coverage, bias and errors by world and estimator."""
    rows = [
        [
            own["world"], own["outcome"], own["estimator"], f"{own['truth']:.3f}",
            f"{own['bias']:+.3f}", f"{own['spread']:.3f}", f"{own['error']:.3f}",
            f"{own['covered']:.1%}",
        ]
        for own in report["cells"]
    ]  # fmt: skip
    heads = ("models", "outcome", "estimator", "truth", "bias", "spread", "error", "covered")
    return "\n".join(table(heads, rows)) + "\n"


def main() -> None:
    made = parser(__doc__, seed=1)
    made.add_argument("--runs", type=int, default=1000, help="runs of a cell")
    options = made.parse_args()
    cells = []
    for outcome in OUTCOMES:
        for name, estimator in CASES:
            world = World(name, outcome)
            truth = world.truth(np.random.default_rng(options.seed))
            own = cell(world, estimator, truth, options.runs, options.seed)
            cells.append(own)
            print(name, outcome, estimator, own, flush=True)
    figures = {
        "seed": options.seed, "runs": options.runs, "sites": SITES, "rows": ROWS, "cells": cells
    }  # fmt: skip
    write_report(options.out, "effect_coverage", figures, markdown)


if __name__ == "__main__":
    main()
