"""How often ratios of hazards are said to differ between sites, or to change, and without cause.

    python benchmarks/survival_warnings.py [--draws 100]

A Cox model of age and a drug at three sites, or ten, whose hazards differ in level. Age acts at
0, 0.5 and 1.0 at different sites; or the drug's ratio falls from 2 to a half; or neither is so.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np
import pandas as pd

from cipherdag import Federation, Policy, Survival
from cipherdag.sites.policy.policy import QUESTION_KINDS

AGES = {"ages differ": (0.0, 0.5, 1.0)}
DRUG = {"drug changes": (0.7, -0.7)}
CHANGES_AT = 4.0


def site(rng: np.random.Generator, n: int, age: float, drug: tuple[float, float]) -> pd.DataFrame:
    """Rows of a site, with logarithms of ratios; the drug's are those before and after a time."""
    years, given, lost = rng.normal(size=n), rng.random(n) < 0.5, rng.uniform(1.0, 25.0, n)
    hazard, wait = 0.1 * rng.uniform(0.5, 2.0) * np.exp(age * years), rng.exponential(size=n)
    first, then = (hazard * np.exp(log * given) for log in drug)
    late = CHANGES_AT + (wait - CHANGES_AT * first) / then
    time = np.where(wait < CHANGES_AT * first, wait / first, late)
    named = {"age": 60.0 + 10.0 * years, "drug": np.where(given, "b", "a")}
    died = np.where(time <= lost, "yes", "no")
    return pd.DataFrame({**named, "months": np.minimum(time, lost), "died": died})


def main() -> None:
    """Print, by world and rows, the shares of runs with each warning."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    draws = parser.parse_args().draws
    logging.disable(logging.WARNING)
    for world in ("neither", *AGES, *DRUG):
        for n_sites, n in ((3, 100), (3, 300), (10, 100)):
            for least in (0, Policy().min_cell_size):
                differ, change = shares(world, n_sites, n, least, draws)
                said = f"{differ:.2f} differ, {change:.2f} change"
                print(f"{world}: {n_sites} x {n} rows, min_cell_size {least}: {said}", flush=True)


def shares(world: str, n_sites: int, n: int, least: int, draws: int) -> tuple[float, float]:
    """The shares of runs that say that ratios differ, and that they change."""
    said = np.zeros(2)
    policy = Policy(min_cell_size=least, questions=QUESTION_KINDS)
    edges = (2.0, 5.0, 10.0, 20.0)
    model = Survival(time="months", event="died", adjust=("age", "drug"), edges=edges)
    for draw in range(draws):
        rng = np.random.default_rng((draw, n_sites, n))
        ages, drug = AGES.get(world, (0.5,) * 3), DRUG.get(world, (-0.5, -0.5))
        data = {f"s{k}": site(rng, n, ages[k % 3], drug) for k in range(n_sites)}
        warnings = Federation.simulate(data, policy=policy).run(model).report.warnings
        said += [any(part in w for w in warnings) for part in ("rows tell alone", "over time (p")]
    differ, change = (said / draws).tolist()
    return differ, change


if __name__ == "__main__":
    main()
