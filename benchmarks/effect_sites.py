"""How often intervals of effects hold the truth where sites differ, are small, or little happens.

    python benchmarks/effect_sites.py --out benchmarks/results/effect_sites
    python benchmarks/effect_sites.py --runs 100

A number and a category act on treatment and outcome. Sites may differ in how high the outcome is
(*baselines*), in how often the treatment is given (*rates*), or in both, where the treatment is
given most where the outcome is highest anyway. In *rare treatment* about 3 % are treated, in *rare
outcome* about 3 % have the outcome, and sites differ in both. Rows are drawn anew in every run.
`effect_batches.py` estimates a hundred runs at once; of each hundred the first is answered from by
the code that sites run, without protection, and both have to agree. The truth is that of a million
rows of each site. A run that is refused names a cause; rates of coverage are those of the others.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from effect_batches import batch, one_line
from markdown_table import table
from measuring import parser, write_report
from plain_runs import driven

from cipherdag import Effect
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import DataError
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.models import steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORLDS = ("alike", "baselines", "rates", "both", "rare treatment", "rare outcome")
OUTCOMES = ("number", "category")
SIZES = ((3, 200), (3, 500), (10, 200))
ESTIMATORS = ("aipw", "ipw", "regression", "linear")
NAMES = ("age", "cured", "drug", "sex")
BATCH = 1_000_000
BATCH_RUNS, CHECKED = 100, 1
FEWEST_TOLD = 50
NEAR = 5e-3
"""Of the package's interval: its quantile of t is an expansion."""
RARE = -3.9
"""Of the logits of a treatment or an outcome that about 3 % have."""


@dataclass(frozen=True, slots=True)
class World:
    """How rows of some sites come about."""

    name: str
    outcome: str
    sites: int

    @property
    def categories(self) -> tuple[int, ...]:
        """Of age, cured, drug and sex."""
        return 0, 0 if self.outcome == "number" else 2, 2, 2

    def level(self, site: int) -> float:
        """From -1 to 1."""
        return 2.0 * site / (self.sites - 1) - 1.0

    def draw(
        self, rng: np.random.Generator, site: int, rows: int
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Rows of a site, and what is expected of each without and with the treatment."""
        differ, own = self.name != "alike", self.level(site)
        age, sex = rng.normal(size=rows), (rng.random(rows) < 0.4) * 1.0
        rare = RARE if self.name == "rare treatment" else -0.4
        push = rare + own * (differ and self.name != "baselines") + 0.6 * age - 0.4 * sex
        drug = (rng.random(rows) < 1.0 / (1.0 + np.exp(-push))) * 1.0
        rare = RARE if self.name == "rare outcome" else -0.4
        high = rare + own * (differ and self.name != "rates")
        both = [high + 0.8 * x + 0.6 * age + 0.4 * sex + 0.3 * x * sex for x in (0.0, 1.0)]
        if self.outcome == "category":
            both = [1.0 / (1.0 + np.exp(-mean)) for mean in both]
        mean = np.where(drug, both[1], both[0])
        if self.outcome == "number":
            cured = mean + rng.normal(size=rows)
        else:
            cured = (rng.random(rows) < mean) * 1.0
        return np.column_stack([age, cured, drug, sex]), both[0], both[1]

    def truth(self, rng: np.random.Generator) -> float:
        """The difference if all were treated and if none were, of sites with as many rows."""
        found = [self.draw(rng, site, BATCH)[1:] for site in range(self.sites)]
        return float(np.mean([(treated - none).mean() for none, treated in found]))


def estimate(world: Any, whole: list[NDArray], estimator: str) -> tuple[float, ...]:
    """Estimate, standard error and interval over sites with these rows.

    Raises:
        DataError: The run is refused.
    """
    discrete = np.array(world.categories) > 0
    sites = [
        SiteView(
            np.where(discrete, own, -1.0).astype(np.int64),
            np.where(discrete, np.nan, own),
            world.categories,
        )
        for own in whole
    ]
    algorithm = Effect(treatment="drug", outcome="cured", adjust="age,sex", estimator=estimator)
    facts = Facts(len(NAMES), len(sites), names=NAMES, min_contributors=1)
    # slopes that all sites share, as the batches have; `effect_slopes.py` compares both
    with patch.object(steps, "ROWS_PER_COEFFICIENT", sys.maxsize):
        found = driven(algorithm.ask(facts), sites)
    own = found.effects[0].contrasts[0]
    return own.estimate, own.error, own.low, own.high


def cell(world: World, rows: int, estimator: str, runs: int, seed: int) -> dict:
    """The figures of an estimator in a world."""
    truth = world.truth(np.random.default_rng(seed))
    rng = np.random.default_rng([seed, WORLDS.index(world.name), world.sites, rows])
    batches = [
        of_batch(world, rng, rows, min(BATCH_RUNS, runs - done), estimator)
        for done in range(0, runs, BATCH_RUNS)
    ]
    estimates, errors, widths, refused = map(np.concatenate, zip(*batches, strict=True))
    told = refused == ""
    hit = np.abs(estimates - truth) <= widths
    few = told.sum() < FEWEST_TOLD
    return {
        "world": world.name, "outcome": world.outcome, "sites": world.sites, "rows": rows,
        "estimator": estimator, "truth": truth, "told": int(told.sum()), "runs": runs,
        "refused": dict(Counter(refused[~told].tolist())),
        "bias": None if few else float(estimates[told].mean() - truth),
        "spread": None if few else float(estimates[told].std(ddof=1)),
        "error": None if few else float(errors[told].mean()),
        "covered": None if few else float(hit[told].mean()),
    }  # fmt: skip


def of_batch(
    world: World, rng: np.random.Generator, rows: int, runs: int, estimator: str
) -> tuple[NDArray, ...]:
    """As `over_runs`, of rows drawn anew for every run."""
    whole = np.array(
        [[world.draw(rng, k, rows)[0] for k in range(world.sites)] for _ in range(runs)]
    )
    return over_runs(world, whole, estimator)


def over_runs(world: Any, whole: NDArray, estimator: str) -> tuple[NDArray, ...]:
    """Estimates, standard errors, widths, and why a run is refused, shape (runs,) each.

    Args:
        world: Has an outcome and categories.
        whole: Rows as `NAMES` has them, of as many at each site, shape (runs, sites, rows, 4).
        estimator: Which.
    """
    runs, sites, rows, _ = whole.shape
    treated = whole[..., 2].sum(axis=2)
    lacking = ((treated == 0) | (treated == rows)).any(axis=1)
    columns = whole.reshape(runs, -1, len(NAMES))
    site = np.repeat(np.eye(sites), rows, axis=0)
    x = np.concatenate([np.broadcast_to(site, (runs, *site.shape)), columns[..., [0, 3]]], axis=2)
    y, t = columns[..., 1], columns[..., 2]
    if estimator == "linear":
        found, refused = one_line(x, t, y), np.zeros(runs, dtype=bool)
    else:
        own = batch(x, t, y, estimator, binary=world.outcome == "category")
        found, refused = own.intervals(x.shape[2]), own.refused
    why = np.where(lacking, "a site lacks an arm", np.where(refused, "too few rows", ""))
    for run in range(CHECKED):
        check(world, whole[run], estimator, [own[run] for own in found], why[run])
    return (*found, why)


def check(world: Any, whole: NDArray, estimator: str, known: list, why: str) -> None:
    """Hold a run of the package against the batch's.

    Raises:
        AssertionError: They differ.
    """
    try:
        change, error, low, high = estimate(world, list(whole), estimator)
    except DataError:
        change = None
    assert (change is None) == bool(why), (world, estimator, change, known, why)
    if change is None:
        return
    own = np.array([change, error, (high - low) / 2.0])
    assert np.allclose(own, known, rtol=NEAR, atol=1e-6), (world, estimator, own, known)


def markdown(report: dict) -> str:
    """Coverage by world, with bias and errors."""

    def number(own: float | None, form: str) -> str:
        return "" if own is None else format(own, form)

    rows = [
        [
            own["world"], own["outcome"], f"{own['sites']} x {own['rows']}", own["estimator"],
            f"{own['truth']:.3f}", number(own["bias"], "+.3f"), number(own["spread"], ".3f"),
            number(own["error"], ".3f"), number(own["covered"], ".1%"),
            f"{1.0 - own['told'] / own['runs']:.0%}",
        ]
        for own in report["cells"]
    ]  # fmt: skip
    heads = ("sites", "outcome", "rows", "estimator", "truth", "bias", "spread", "error",
             "covered", "refused")  # fmt: skip
    return "\n".join(table(heads, rows)) + "\n"


def main() -> None:
    made = parser(__doc__, seed=1)
    made.add_argument("--runs", type=int, default=1000, help="runs of a cell")
    options = made.parse_args()
    cells = []
    for outcome, name, (sites, rows) in product(OUTCOMES, WORLDS, SIZES):
        for estimator in ESTIMATORS if (outcome, name) != ("number", "rare outcome") else ():
            own = cell(World(name, outcome, sites), rows, estimator, options.runs, options.seed)
            cells.append(own)
            print(own, flush=True)
    figures = {"seed": options.seed, "runs": options.runs, "cells": cells}
    write_report(options.out, "effect_sites", figures, markdown)


if __name__ == "__main__":
    main()
