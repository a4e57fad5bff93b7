"""How often intervals of effects hold the truth where a confounder's slopes differ between sites.

    python benchmarks/effect_slopes.py [--draws 100]

A number acts on treatment and outcome: with other slopes at every site (1, -1 and 0, or .8, .2 and
.5), or with the same. Each line compares slopes that all sites share with those of sites that have
15 rows a coefficient. Of `one large` there is a site of 1,000 rows, and four of 60. Rows are
answered from by the code that sites run, without protection.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from plain_runs import driven

from cipherdag import Effect
from cipherdag.algorithms.algorithm import Facts
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.models import steps

WORLDS = {"far": (1.0, -1.0, 0.0), "near": (0.8, 0.2, 0.5), "equal": (0.5, 0.5, 0.5)}
SIZES = {"3 x 1000": [1000] * 3, "3 x 200": [200] * 3, "10 x 120": [120] * 10}
SIZES["one large"] = [1000, 60, 60, 60, 60]
NAMES = ("cost", "drug", "w", "z")
SEED = 61
ENOUGH = steps.ROWS_PER_COEFFICIENT


def site(rng: np.random.Generator, n: int, slope: float, level: float) -> SiteView:
    """Rows of a site; the effect is 1."""
    z, w, noise = rng.normal(size=(3, n))
    drug = rng.random(n) < 1.0 / (1.0 + np.exp(-slope * z - 0.3 * w))
    cost = drug + 1.5 * slope * z + 0.5 * w + noise + level
    nothing = np.zeros(n, dtype=np.int64)
    codes = np.column_stack([nothing, drug.astype(np.int64), nothing, nothing])
    return SiteView(codes, np.column_stack([cost, np.full(n, np.nan), w, z]), (0, 2, 0, 0))


def interval(sites: list[SiteView]) -> tuple[float, float]:
    """The interval of the effect."""
    algorithm = Effect(treatment="drug", outcome="cost", adjust="z,w")
    facts = Facts(len(NAMES), len(sites), names=NAMES, min_contributors=1)
    contrast = driven(algorithm.ask(facts), sites).effects[0].contrasts[0]
    return contrast.low, contrast.high


def main() -> None:
    """Print coverage, width and bias by world and sites."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    draws = parser.parse_args().draws
    for world, slopes in WORLDS.items():
        for name, sizes in SIZES.items():
            for how, least in (("shared", sys.maxsize), ("by site", ENOUGH)):
                steps.ROWS_PER_COEFFICIENT = least
                ends = []
                for draw in range(draws):
                    rng = np.random.default_rng((SEED, draw, *sizes))
                    each = enumerate(sizes)
                    ends.append(interval([site(rng, n, slopes[k % 3], 0.3 * k) for k, n in each]))
                low, high = np.array(ends).T
                covered, bias = ((low <= 1.0) & (high >= 1.0)).mean(), ((low + high) / 2).mean() - 1
                figures = f"covered {covered:.3f}, width {(high - low).mean():.3f}, bias {bias:.3f}"
                print(f"{world} slopes, {name}, {how}: {figures}", flush=True)


if __name__ == "__main__":
    main()
