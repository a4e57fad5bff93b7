"""How often a warning says that rows below some number have nobody treated, and without cause.

    python benchmarks/effect_overlap.py [--draws 40]

Effect by augmented inverse probability weighting at three sites. Nobody is treated below z = -0.5;
above it the chance is a half, or rises with z; or the treatment's model is right everywhere.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np
import pandas as pd

from cipherdag import Effect, Federation, Policy
from cipherdag.errors import DataError
from cipherdag.sites.policy.policy import QUESTION_KINDS

CUT = -0.5


def rows_of(rng: np.random.Generator, n: int, world: str) -> pd.DataFrame:
    """Rows with a number z that treatment and outcome follow."""
    z, w = rng.normal(size=(2, n))
    chance = np.full(n, 0.5) if world == "a half above" else 1.0 / (1.0 + np.exp(-0.5 * (z + w)))
    drug = (rng.random(n) < chance) & ((z > CUT) | (world == "right"))
    named = {"z": z, "w": w, "drug": np.where(drug, "yes", "no")}
    return pd.DataFrame({**named, "cost": z + w + drug + rng.normal(size=n)})


def main() -> None:
    """Print, by world and rows, how many runs were warned of it, of anything, and refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=40)
    draws = parser.parse_args().draws
    logging.disable(logging.WARNING)
    for world in ("a half above", "rising above", "right"):
        for n in (600, 3000):
            for least in (0, Policy().min_cell_size):
                print(world, f"{n:5} rows, min_cell_size {least}:", *shares(world, n, least, draws))


def shares(world: str, n: int, least: int, draws: int) -> list[str]:
    """How many runs say it, are warned of anything, and are refused."""
    said = refused = warned = 0
    policy = Policy(min_cell_size=least, questions=QUESTION_KINDS)
    for draw in range(draws):
        rows = rows_of(np.random.default_rng((draw, n)), n, world)
        effect = Effect(treatment="drug", outcome="cost", adjust="z,w")
        try:
            run = Federation.split(rows, 3, seed=draw, policy=policy).run(effect)
        except DataError:
            refused += 1
            continue
        said += any("than the treatment's model says" in each for each in run.report.warnings)
        warned += bool(run.report.warnings)
    counts = {"said": said, "warned of anything": warned, "refused": refused}
    return [f"{count / draws:.2f} {what}" for what, count in counts.items()]


if __name__ == "__main__":
    main()
