"""Do intervals of a ratio of hazards cover it, and does the log-rank test keep its level?

    python benchmarks/survival_coverage.py --out benchmarks/results/survival_coverage

Made-up hospitals, each with a hazard of its own that rises by age; the generator's questions are
answered by what the sites compute and summed in the clear: the sums are those of a protected run.
Coverage: 95 % intervals of the ratio between two arms, which the hospitals have in equal parts, and
of the ratio per ten years. Level: both log-rank tests where the arms are alike; `more in the iller
hospitals` has the arm more often where the hazard is larger. Power: the same tests where the ratio
is 0.7; the test of all rows is of exact counts alone.
Curve: how often the intervals at a year and at three hold the chance of no event there.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from markdown_table import table
from measuring import parser, write_report
from plain_runs import driven

from cipherdag import Survival
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import DataError
from cipherdag.sites.answers.site_view import SiteView

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from cipherdag.findings.survival import SurvivalAnalysis
    from cipherdag.sites.answers.site_view import SiteView


COLUMNS = ("age", "arm", "event", "months")
CATEGORIES = (0, 2, 2, 0)
LEVELS = (0.5, 1.0, 2.0, 0.7, 1.5)
HAZARD, PER_TEN_YEARS = 0.03, 1.3
EDGES = tuple(float(month) for month in range(3, 61, 3))
YEARS = (12.0, 36.0)
SIZES = ((3, 100), (3, 300), (3, 1000), (5, 100), (5, 300))
ALPHA = 0.05


@dataclass(frozen=True)
class World:
    """Patients of several hospitals.

    Attributes:
        n_sites: How many hospitals.
        rows: Patients of each.
        ratio: Of hazards between the arms, all else alike.
        unlike: Whether iller hospitals have more of one arm.
        age: Whether the hazard rises by age.
    """

    n_sites: int
    rows: int
    ratio: float
    unlike: bool = False
    age: bool = True

    def patients(self, rng: np.random.Generator, place: int) -> NDArray[np.float64]:
        """Columns of one hospital, shape (rows, 4)."""
        level = LEVELS[place]
        share = 0.2 + 0.3 * place if self.unlike else 0.5
        arm, age = rng.random(self.rows) < share, rng.normal(60.0, 10.0, self.rows)
        by_age = PER_TEN_YEARS ** ((age - 60.0) / 10.0) if self.age else 1.0
        event = rng.exponential(1.0 / (HAZARD * level * self.ratio**arm * by_age))
        lost = rng.uniform(6.0, 72.0, self.rows)
        return np.column_stack([age, arm, event <= lost, np.minimum(event, lost)])


def site(rows: NDArray[np.float64], least: int) -> SiteView:
    """A site that answers from these columns."""
    discrete = np.array(CATEGORIES) > 0
    codes = np.where(discrete, rows, -1.0).astype(np.int64)
    return SiteView(codes, np.where(discrete, np.nan, rows), CATEGORIES, min_cell_size=least)


def found(
    world: World, rng: np.random.Generator, least: int, **own: object
) -> SurvivalAnalysis | None:
    """What the sums of one draw tell; None where there is no curve."""
    drawn = [world.patients(rng, place) for place in range(world.n_sites)]
    sites = [site(rows, least) for rows in drawn]
    named = {"time": "months", "event": "event", "edges": EDGES, "max_rows": 1 << 12}
    algorithm = Survival(**(named | own))
    facts = Facts(
        len(COLUMNS), world.n_sites, names=COLUMNS, min_contributors=min(3, world.n_sites)
    )
    try:
        outcome = driven(algorithm.ask(facts), sites)
    except DataError:
        return None
    return algorithm.conclude(outcome, facts)


def coverage(world: World, rng: np.random.Generator, least: int, draws: int, *, own: bool) -> dict:
    """How often the intervals of both ratios hold the truth."""
    truth = {"arm": world.ratio, "age": PER_TEN_YEARS**0.1}
    held = {name: [] for name in truth}
    log_ratios = []
    for _ in range(draws):
        drawn = found(world, rng, least, adjust=("arm", "age"), site_effect=own)
        for ratio in drawn.model.ratios if drawn else ():
            if not ratio.fault:
                held[ratio.column].append(ratio.low <= truth[ratio.column] <= ratio.high)
            if ratio.column == "arm" and not ratio.fault:
                log_ratios.append(ratio.log_ratio - np.log(world.ratio))
    return {
        "n_sites": world.n_sites,
        "rows": world.rows,
        "least": least,
        "hazards": "of each site" if own else "one, in bins",
        "done": len(log_ratios) / draws,
        "bias": _mean(log_ratios),
        **{name: _mean(own) for name, own in held.items()},
    }


def rejected(world: World, rng: np.random.Generator, least: int, draws: int) -> dict:
    """How often either log-rank test has a p-value up to 5 %; not counted where not done."""
    p_values: dict[str, list[float]] = {"within": [], "together": []}
    for _ in range(draws):
        drawn = found(world, rng, least, by="arm")
        tests = (drawn.test, drawn.together) if drawn else ()
        for name, test in zip(p_values, tests, strict=False):
            if test is not None and test.p_value is not None:
                p_values[name].append(test.p_value)
    shares = {name: _mean([p <= ALPHA for p in own]) for name, own in p_values.items()}
    return {
        "n_sites": world.n_sites,
        "rows": world.rows,
        "least": least,
        "ratio": world.ratio,
        "arms": "more in the iller hospitals" if world.unlike else "in equal parts",
        "done": len(p_values["within"]) / draws,
        **shares,
    }


def curve(world: World, rng: np.random.Generator, least: int, draws: int) -> dict:
    """How often the interval of one curve of all rows holds the truth, and its mean error."""
    levels = np.array(LEVELS[: world.n_sites])
    held = {year: [] for year in YEARS}
    errors = {year: [] for year in YEARS}
    for _ in range(draws):
        drawn = found(world, rng, least)
        if drawn is None:
            continue
        (own,) = drawn.curves
        for year in YEARS:
            place = EDGES.index(year)
            truth = float(np.exp(-HAZARD * levels * year).mean())
            held[year].append(own.low[place] <= truth <= own.high[place])
            errors[year].append(own.survival[place] - truth)
    found_at = {f"{year:g}": _mean(held[year]) for year in YEARS}
    return {
        "n_sites": world.n_sites,
        "rows": world.rows,
        "least": least,
        "done": len(held[YEARS[0]]) / draws,
        **found_at,
        **{f"bias {year:g}": _mean(errors[year]) for year in YEARS},
    }


def _mean(numbers: Sequence[float]) -> float | None:
    return float(np.mean(numbers)) if numbers else None


def figures(seed: int, draws: int, processes: int) -> dict:
    """All cases, each with numbers of its own."""
    worlds = [World(n_sites, rows, 0.7) for n_sites, rows in SIZES]
    few, equal = worlds[:3], [replace(own, ratio=1.0) for own in worlds[:3]]
    tested = [*equal, *(replace(own, unlike=True) for own in equal), *few]
    flat = [replace(own, age=False) for own in equal]
    kinds = ((11, True), (0, True), (0, False))
    cases = [
        *(("coverage", own, least, {"own": each}) for own in worlds for least, each in kinds),
        *(("tests", own, least, {}) for own in tested for least in (11, 0)),
        *(("curves", own, least, {}) for own in flat for least in (11, 0)),
    ]
    report: dict = {"draws": draws, "coverage": [], "tests": [], "curves": []}
    with ProcessPoolExecutor(processes) as pool:
        asked = [
            pool.submit(COMPUTED[name], own, np.random.default_rng([seed, k]), least, draws, **more)
            for k, (name, own, least, more) in enumerate(cases)
        ]
        for (name, *_), figure in zip(cases, asked, strict=True):
            report[name].append(figure.result())
    return report


COMPUTED = {"coverage": coverage, "tests": rejected, "curves": curve}


def markdown(report: dict) -> str:
    """The tables."""
    ratios = [
        [
            own["n_sites"],
            own["rows"],
            own["least"],
            own["hazards"],
            *(_percent(own[name]) for name in ("done", "arm", "age")),
            _signed(own["bias"]),
        ]
        for own in report["coverage"]
    ]
    tests = [
        [
            own["n_sites"],
            own["rows"],
            own["least"],
            own["ratio"],
            own["arms"],
            *(_percent(own[name]) for name in ("done", "within", "together")),
        ]
        for own in report["tests"]
    ]
    at = [f"{year:g}" for year in YEARS]
    curves = [
        [
            own["n_sites"],
            own["rows"],
            own["least"],
            *(_percent(own[year]) for year in ("done", *at)),
            *(_signed(own[f"bias {year}"]) for year in at),
        ]
        for own in report["curves"]
    ]
    first = ("sites", "rows each", "`min_cell_size`")
    lines = [
        f"{report['draws']:,} draws each. 95 % intervals of ratios of hazards that hold the truth:",
        "",
        *table(
            (*first, "hazards", "done", "arm, 0.7", "age, 1.3 per ten years", "bias of log 0.7"),
            ratios,
        ),
        "",
        "Log-rank tests with a p-value up to 5 %:",
        "",
        *table((*first, "ratio", "arms", "done", "within sites", "of all rows, in bins"), tests),
        "",
        "Intervals of a curve at 12 and 36 months that hold the chance of no event; mean error:",
        "",
        *table((*first, "done", "12", "36", "error at 12", "at 36"), curves),
    ]
    return "\n".join(lines) + "\n"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _signed(number: float | None) -> str:
    return "" if number is None else f"{number:+.3f}"


def main() -> None:
    """Run it."""
    made = parser(__doc__ or "", seed=1)
    made.add_argument("--draws", type=int, default=1000)
    made.add_argument("--processes", type=int, default=2)
    options = made.parse_args()
    out: Path | None = options.out
    report = figures(options.seed, options.draws, options.processes)
    print(markdown(report))
    write_report(out, "survival_coverage", {"seed": options.seed, **report}, markdown)


if __name__ == "__main__":
    main()
