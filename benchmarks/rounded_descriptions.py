"""How near are shares, quartiles and means of descriptions whose counts are in whole units?

    python benchmarks/rounded_descriptions.py --out benchmarks/results/rounded_descriptions

Whole runs, with masks and comparisons, of 2 to 6 sites with at least 22 rows each: a normal column,
a lognormal one that misses up to a tenth of its values, an exponential one, and two columns of four
and of two categories. Unit 1: no site restricts small counts. Share: by how many rows the middle of
its range is off, and how often the range holds it. Quartiles and means: off in standard deviations.
Typing errors: columns of numbers, all of which are clean, that are said to have some.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from markdown_table import table
from measuring import parser, write_report

from cipherdag import Describe, Federation, Policy
from cipherdag.findings.description import QUANTILES
from cipherdag.sites.drafts.inference import infer_schema

UNITS = (11, 5, 1)
CLASSES = ((200, 500), (500, 2000), (2000, 5000))
STAGES = ("I", "II", "III", "IV")
FEWEST = 22


def study(rng: np.random.Generator, least: int, most: int) -> tuple[pd.DataFrame, np.ndarray]:
    """A table, and the site of each row."""
    n, sites = int(rng.integers(least, most)), int(rng.integers(2, 7))
    crp = rng.lognormal(1.0, 0.8, n)
    crp[rng.random(n) < rng.choice([0.0, 0.02, 0.1])] = np.nan
    rows = pd.DataFrame(
        {
            "age": rng.normal(60.0, 10.0, n),
            "crp": crp,
            "wait": rng.exponential(3.0, n),
            "stage": rng.choice(STAGES, n, p=[0.55, 0.3, 0.13, 0.02]),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    site = rng.choice(sites, n, p=rng.dirichlet(np.full(sites, 8.0)))
    enough = np.bincount(site, minlength=sites).min() >= FEWEST
    whole = rows["stage"].nunique() == len(STAGES)
    return (rows, site) if enough and whole else study(rng, least, most)


def measured(rng: np.random.Generator, draws: int, unit: int, sizes: tuple[int, int]) -> dict:
    """Errors of so many runs."""
    off: dict[str, list] = {"share": [], "held": [], "quartile": [], "mean": [], "typing": []}
    rounds = []
    for _ in range(draws):
        rows, site = study(rng, *sizes)
        data = {f"s{k}": rows[site == k] for k in np.unique(site)}
        policy = Policy(min_sites=2, tolerated_colluders=0, min_cell_size=unit)
        federation = Federation.simulate(
            data, schema=infer_schema([rows]), policy=policy, device="cpu"
        )
        run = federation.run(Describe())
        rounds.append(len(run.rounds))
        for name, column in run.finding.columns.items():
            values = rows[name].dropna()
            if column.categories:
                counts = values.value_counts().sort_index()
                for (low, high), count in zip(column.ranges, counts, strict=True):
                    off["share"].append(abs((low + high) / 2.0 - count))
                    off["held"].append(low <= count <= high)
                continue
            spread = values.std()
            each = zip(QUANTILES[1:4], column.quantiles[1:4], strict=True)
            off["quartile"] += [abs(own - values.quantile(share)) / spread for share, own in each]
            off["mean"].append(abs(column.mean - values.mean()) / spread)
            off["typing"].append(column.far)
    means = {name: float(np.mean(found)) for name, found in off.items()}
    return {
        "unit": unit,
        "rows": sizes,
        "draws": draws,
        "most rows off": float(np.max(off["share"])),
        "quartile of 95 %": float(np.quantile(off["quartile"], 0.95)),
        "most rounds": max(rounds),
        **means,
    }


def figures(seed: int, draws: int) -> dict:
    """All classes of sizes with numbers of their own."""
    cases = [(unit, rows) for unit in UNITS for rows in CLASSES]
    return {
        "classes": [
            measured(np.random.default_rng([seed, k]), draws, *case) for k, case in enumerate(cases)
        ]
    }


def markdown(report: dict) -> str:
    """The table."""
    rows = [
        [
            own["unit"],
            "{:,} to {:,}".format(*own["rows"]),
            f"{own['share']:.1f}",
            f"{own['most rows off']:.1f}",
            f"{own['held']:.3f}",
            *(f"{own[name]:.4f}" for name in ("quartile", "quartile of 95 %", "mean")),
            f"{own['typing']:.3f}",
            own["most rounds"],
        ]
        for own in report["classes"]
    ]
    names = ("unit", "rows", "share off by", "at most", "held", "quartiles off by", "95 %")
    said = f"{report['classes'][0]['draws']} whole runs of each class."
    more = ("means off by", "typing errors", "most rounds")
    return "\n".join([said, "", *table((*names, *more), rows), ""])


def main() -> None:
    """Run it."""
    made = parser(__doc__ or "", seed=66)
    made.add_argument("--draws", type=int, default=12, help="runs of each class of sizes")
    options = made.parse_args()
    report = figures(options.seed, options.draws)
    print(markdown(report))
    write_report(options.out, "rounded_descriptions", {"seed": options.seed, **report}, markdown)


if __name__ == "__main__":
    main()
