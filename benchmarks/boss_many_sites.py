"""FedBOSS on categories at few and many sites, with and without what a parent costs for each site.

    OMP_NUM_THREADS=1 python benchmarks/boss_many_sites.py DATA_FOLDER --seeds 51 52 53

DATA_FOLDER is what `fedpc_data` reads. The rows of every sample (seed = its number) lie evenly at
3, 10 or 30 sites. The part for sites was chosen by samples 41 to 43. Finished cases are read from
--lines. --out writes JSON and Markdown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

from fedpc_data import draw
from measuring import figure_table, parser, run_cases

from cipherdag import FedBOSS, Federation, FedPC
from cipherdag.algorithms.fedboss.settings import ScoreSettings

if TYPE_CHECKING:
    from pathlib import Path

CASES = tuple(
    f"{name}, {rows} rows, {sites} sites"
    for rows, sites in ((1000, 3), (1000, 10), (1000, 30), (5000, 10))
    for name in ("alarm", "insurance", "win95pts")
)
METHODS = ("FedBOSS", "no part for sites", "FedPC")
FIGURES = (("shd_cpdag", "CPDAG SHD"), ("extra", "edges too many"))
BOUNDS = ScoreSettings.bounds_of_sets


def main() -> None:
    run_cases(
        parser(__doc__),
        "boss_many_sites",
        data=CASES,
        methods=METHODS,
        measure=measured,
        markdown=markdown,
    )


def measured(folder: Path, case: dict) -> dict:
    """One sample by one method."""
    name, rows, sites = case["data"].split(", ")
    data, schema, truth = draw(name, folder, case["sample"], int(rows.split()[0]))
    n_sites = int(sites.split()[0])
    federation = Federation.split(data, n_sites, schema=schema, seed=case["sample"])
    algorithm = FedPC() if case["method"] == "FedPC" else FedBOSS()
    if case["method"] == "no part for sites":
        alone = patch.object(ScoreSettings, "bounds_of_sets", lambda *of: BOUNDS(*of[:3], 1))
        with alone:
            result = federation.run(algorithm, seed=case["sample"])
    else:
        result = federation.run(algorithm, seed=case["sample"])
    distance = result.finding.metrics_cpdag(truth)
    return {"shd_cpdag": distance.shd, "extra": distance.extra}


def markdown(figures: dict) -> str:
    """One table per figure."""
    lines = []
    for key, title in FIGURES:
        lines += [f"**{title}**", "", *figure_table(figures["cases"], CASES, METHODS, key, 0), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
