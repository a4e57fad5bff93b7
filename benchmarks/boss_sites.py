"""FedBOSS within sites and pooled, where sites are alike and where each has levels of its own.

    OMP_NUM_THREADS=1 python benchmarks/boss_sites.py DATA_FOLDER --lines boss_sites.jsonl

DATA_FOLDER is what `fedpc_data` reads. 5000 rows of every sample (seed = its number) lie at ten
sites, split unevenly. With levels of its own, each site adds a constant to every number, normal
with a standard deviation of a half of the column's; and draws the categories without a cause from
shares uniform on the simplex. Sites allow every count. `within` opens scores, `pooled` is
--no-within-sites; `field.py` has the same rows by bits. Finished cases are read from --lines. --out
writes JSON and Markdown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from bif import read_bif
from fedpc_data import NETWORKS, draw
from measuring import figure_table, parser, run_cases
from sites_that_differ import with_own_tables

from cipherdag import FedBOSS, Federation, Policy
from cipherdag.federation.site import split_rows
from cipherdag.sites.policy.policy import QUESTION_KINDS

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

SITES, SPREAD = 10, 0.5
DATA = ("linear-50", "alarm", "insurance")
WORLDS = ("alike", "own levels")
CASES = tuple(f"{name}, {world}" for name in DATA for world in WORLDS)
METHODS = {
    "within": FedBOSS(reveal="sums"),
    "pooled": FedBOSS(within_sites=False),
}
FIGURES = (("shd_cpdag", "CPDAG SHD"), ("extra", "edges too many"))


def main() -> None:
    run_cases(
        parser(__doc__),
        "boss_sites",
        data=CASES,
        methods=tuple(METHODS),
        measure=measured,
        markdown=markdown,
    )


def measured(folder: Path, case: dict) -> dict:
    """One sample by one method."""
    name, world = case["data"].split(", ")
    data, schema, truth = draw(name, folder, case["sample"])
    rng = np.random.default_rng((case["sample"], SITES))
    parts = split_rows(len(data), SITES, rng=rng)
    tables = {f"site{k}": data.iloc[rows] for k, rows in enumerate(parts)}
    if world != WORLDS[0]:
        tables = with_own_levels(name, folder, tables, rng)
    policy = Policy(questions=QUESTION_KINDS, min_cell_size=0, max_values=2**53, max_tests=2**53)
    federation = Federation.simulate(tables, schema=schema, policy=policy, device="cpu")
    result = federation.run(METHODS[case["method"]], seed=case["sample"])
    distance = result.finding.metrics_cpdag(truth)
    return {"shd_cpdag": distance.shd, "extra": distance.extra}


def with_own_levels(
    name: str, folder: Path, tables: dict[str, pd.DataFrame], rng: np.random.Generator
) -> dict[str, pd.DataFrame]:
    """As many rows of sites with levels, or shares of categories without a cause, of their own."""
    if name not in NETWORKS:
        return {
            site: own + own.std() * rng.normal(0.0, SPREAD, own.shape[1])
            for site, own in tables.items()
        }
    network = read_bif(folder / "bn" / f"{name}.bif.gz", numbered=True)
    effects = {effect for _, effect in network.graph.directed}
    roots = [own for own in network.names if own not in effects]
    return {
        site: with_own_tables(network, roots, rng).sample(len(own), rng)
        for site, own in tables.items()
    }


def markdown(figures: dict) -> str:
    """One table per figure."""
    lines = []
    for key, title in FIGURES:
        lines += [f"**{title}**", "", *figure_table(figures["cases"], CASES, METHODS, key, 0), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
