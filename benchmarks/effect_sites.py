"""How often intervals of effects hold the truth where sites differ, are small, or little happens.

    python benchmarks/effect_sites.py --out benchmarks/results/effect_sites
    python benchmarks/effect_sites.py --runs 100

A number and a category act on treatment and outcome. Sites may differ in how high the outcome is
(*baselines*), in how often the treatment is given (*rates*), or in both, where the treatment is
given most where the outcome is highest anyway. In *rare treatment* about 3 % are treated, in *rare
outcome* about 3 % have the outcome, and sites differ in both. Rows are drawn anew in every run and
answered from without protection by the same code that sites run. The truth is that of a million
rows of each site. A run that is refused names a cause; the rates are those of the others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markdown_table import table
from measuring import parser, write_report
from plain_runs import driven, pooled_site

from cipherdag import Effect
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import DataError
from cipherdag.sites.compute.pooled.poolable_data import PoolableData

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORLDS = ("alike", "baselines", "rates", "both", "rare treatment", "rare outcome")
OUTCOMES = ("number", "category")
SIZES = ((3, 200), (3, 500), (10, 200))
ESTIMATORS = ("aipw", "ipw", "regression", "linear")
NAMES = ("age", "cured", "drug", "sex")
BATCH = 1_000_000
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
        differ, own = self.name not in ("alike",), self.level(site)
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


def estimate(world: World, whole: list[NDArray], estimator: str) -> tuple[float, ...]:
    """Estimate, standard error and interval over sites with these rows.

    Raises:
        DataError: The run is refused.
    """
    discrete = np.array(world.categories) > 0
    sites = [
        pooled_site(
            PoolableData(
                np.where(discrete, own, -1.0).astype(np.int64),
                np.where(discrete, np.nan, own),
                world.categories,
            ),
            len(NAMES),
        )
        for own in whole
    ]
    algorithm = Effect(
        treatment="drug", outcome="cured", adjust="age,sex", estimator=estimator, between=False
    )
    found = driven(algorithm.ask(Facts(len(NAMES), len(sites), names=NAMES, fewest=1)), sites)
    own = found.found[0].contrasts[0]
    return own.estimate, own.error, own.low, own.high


def cell(world: World, rows: int, estimator: str, truth: float, runs: int, seed: int) -> dict:
    """The figures of an estimator in a world."""
    rng = np.random.default_rng([seed, len(world.name), world.sites, rows])
    found, refused = [], Counter()
    for _ in range(runs):
        whole = [world.draw(rng, site, rows)[0] for site in range(world.sites)]
        try:
            found.append(estimate(world, whole, estimator))
        except DataError as reason:
            refused[str(reason)] += 1
    estimates, errors, low, high = np.array(found).reshape(-1, 4).T
    told = len(found) > 1
    return {
        "world": world.name, "outcome": world.outcome, "sites": world.sites, "rows": rows,
        "estimator": estimator, "truth": truth, "refused": dict(refused), "told": len(found),
        "bias": float(estimates.mean() - truth) if told else None,
        "spread": float(estimates.std(ddof=1)) if told else None,
        "error": float(errors.mean()) if told else None,
        "covered": float(((low <= truth) & (truth <= high)).mean()) if told else None,
    }  # fmt: skip
