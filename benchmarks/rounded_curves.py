"""Do intervals of curves of rounded counts hold the curve of all rows, and how wide are they?

    python benchmarks/rounded_curves.py --out benchmarks/results/rounded_curves

Followed patients of 2 to 10 sites, 100 to 5,000 in all, by a Weibull hazard, who are lost at times
of a uniform distribution; 5 to 40 edges up to between the 80th and the 95th percentile of times.
Of two groups the second has 30 to 70 % of the rows; the first is counted together with it.
Floors of the totals are computed in the clear, which gives what secure comparisons find; some of
the studies run whole, with masks and comparisons, and have to give the same curves. Held: how often
the 95 % interval at an edge contains Kaplan and Meier's curve of all rows at exact times, and the
chance that the patients are drawn from; `worst edge` is the lowest share at any tenth of the
edges. Width: relative to the plain interval of Kaplan and Meier, both summed over all edges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from markdown_table import table
from measuring import parser, write_report

from cipherdag import Federation, Policy, Survival
from cipherdag.algorithms.survival.outcome import counts_in_units
from cipherdag.questions.estimation.survival import SurvivalCounts
from cipherdag.statistics.survival import RoundedCounts, curve_of, survival_curve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cipherdag.findings.survival import GroupCurve
    from cipherdag.statistics.survival import Curve

    FloatArray = NDArray[np.float64]

UNITS = (11, 5, 1)
DEFAULT = UNITS[0]
CLASSES = ((100, 300), (300, 1000), (1000, 5000))
TENTHS = 10
FIRST_PAIR = 100
"""Number of the first class of studies of two groups."""


@dataclass(frozen=True)
class Study:
    """Followed patients.

    Attributes:
        times: Until the event or the end of follow-up, shape (n,).
        ended: Whether by the event, shape (n,).
        sites: The site of each, shape (n,).
        edges: Upper edges of bins, shape (B,).
        chance: That of no event up to each edge, shape (B,).
        groups: The group of each, shape (n,).
    """

    times: FloatArray
    ended: NDArray[np.bool_]
    sites: NDArray[np.int64]
    edges: FloatArray
    chance: FloatArray
    groups: NDArray[np.int64]

    @classmethod
    def drawn(cls, rng: np.random.Generator, least: int, most: int, n_groups: int = 1) -> Study:
        """A study of so many rows in one group or two."""
        n = int(np.exp(rng.uniform(np.log(least), np.log(most))))
        n_sites, bins = int(rng.integers(2, 11)), int(rng.integers(5, 41))
        shape, scale = rng.uniform(0.6, 2.0), rng.uniform(0.3, 3.0)
        event = scale * rng.weibull(shape, n)
        lost = rng.uniform(0.0, rng.uniform(1.0, 4.0), n)
        times = np.minimum(event, lost)
        edges = np.linspace(0.0, np.quantile(times, rng.uniform(0.8, 0.95)), bins + 1)[1:]
        sites = rng.choice(n_sites, n, p=rng.dirichlet(np.full(n_sites, 4.0)))
        groups = np.zeros(n, dtype=np.int64)
        if n_groups > 1:
            groups[rng.random(n) < rng.uniform(0.3, 0.7)] = 1
        chance = np.exp(-((edges / scale) ** shape))
        return cls(times, event <= lost, sites, edges, chance, groups)

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return int(self.groups.max(initial=0)) + 1

    def part(self, group: int) -> Study:
        """The rows of a group."""
        here = self.groups == group
        return replace(
            self,
            times=self.times[here],
            ended=self.ended[here],
            sites=self.sites[here],
            groups=np.zeros(here.sum(), dtype=np.int64),
        )

    def counts(self, unit: int) -> tuple[RoundedCounts, ...]:
        """What is known of each group where counts are opened in units."""
        parts = [self.part(group) for group in range(self.n_groups)]
        gone = [self, *parts[1:]] if len(parts) > 1 else parts
        totals = [
            *(_up_to(each.times[each.ended], self.edges) for each in parts),
            *(_up_to(each.times, self.edges) for each in gone),
            [len(each.times) for each in gone],
        ]
        asked = SurvivalCounts(
            categories=(0, 2, len(parts)),
            time=0,
            event=1,
            by=2,
            complete_in=(2,),
            edges=self.edges.astype("<f8").tobytes(),
        )
        return counts_in_units(asked, np.concatenate(totals) // unit, unit)

    def exact(self) -> Curve:
        """Kaplan and Meier's curve at the edges, with its plain interval."""
        seen = np.unique(self.times[self.ended])
        ordered, events = np.sort(self.times), np.sort(self.times[self.ended])
        at_risk = len(ordered) - np.searchsorted(ordered, seen, side="left")
        count = np.diff(np.searchsorted(events, seen, side="right"), prepend=0)
        curve = survival_curve(count.astype(float), at_risk.astype(float))
        last = np.searchsorted(seen, self.edges, side="right")
        parts = (np.append(1.0, part)[last] for part in (curve.survival, curve.low, curve.high))
        return type(curve)(*parts)


def _up_to(times: FloatArray, edges: FloatArray) -> NDArray[np.int64]:
    """How many times there are up to each edge."""
    return np.searchsorted(np.sort(times), edges, side="right")


def measured(
    rng: np.random.Generator, draws: int, unit: int, rows: tuple[int, int], group: str = "all"
) -> dict:
    """Shares and widths over studies of a class of sizes, of a group with a unit of rows."""
    held, true, tenth, widths, medians, errors = [], [], [], np.zeros(2), [], []
    for _ in range(draws):
        study = Study.drawn(rng, *rows, n_groups=1 if group == "all" else 2)
        number = int(group == "second")
        counts = study.counts(unit)[number]
        if counts.least_rows < unit:
            continue
        found, exact = curve_of(counts, halved=True), study.part(number).exact()
        there = ~np.isnan(found.survival)
        for values, inside in ((exact.survival, held), (study.chance, true)):
            inside.extend(((found.low <= values) & (values <= found.high))[there].tolist())
        place = np.arange(len(study.edges)) * TENTHS // len(study.edges)
        tenth += place[there].tolist()
        widths += [(own.high - own.low)[there].sum() for own in (found, exact)]
        errors += np.abs(found.survival - exact.survival)[there].tolist()
        medians.append(_median_held(found, exact))
    worst, worst_true = (
        float(min(np.mean(np.array(own)[np.array(tenth) == k]) for k in range(TENTHS)))
        for own in (held, true)
    )
    return {
        "unit": unit,
        "rows": list(rows),
        "group": group,
        "draws": draws,
        "edges": len(held),
        "held": float(np.mean(held)),
        "worst edge": worst,
        "true": float(np.mean(true)),
        "worst true": worst_true,
        "medians": float(np.mean([own for own in medians if own is not None])),
        "width": float(widths[0] / widths[1]),
        "error": float(np.mean(errors)),
    }


def _median_held(found: Curve, exact: Curve) -> bool | None:
    """Whether the bin in which the exact curve falls to a half is in the interval of the median."""
    if not (exact.survival <= 0.5).any():
        return None
    last = np.nan_to_num(found.low, nan=0.0), np.nan_to_num(found.high, nan=0.0)
    first, until = (np.flatnonzero(np.append(ends, 0.0) <= 0.5)[0] for ends in last)
    return bool(first <= np.flatnonzero(exact.survival <= 0.5)[0] <= until)


def whole_runs(rng: np.random.Generator, runs: int) -> dict:
    """How many runs with masks and comparisons give the curves that arithmetic in the clear does.

    Every second one is of two groups.
    """
    same, rounds = 0, []
    for number in range(runs):
        study = Study.drawn(rng, 100, 2000, n_groups=1 + number % 2)
        rows = pd.DataFrame({"time": study.times, "event": study.ended.astype(int)})
        if study.n_groups > 1:
            rows["group"] = study.groups
        data = {f"s{site:02}": rows[study.sites == site] for site in np.unique(study.sites)}
        policy = Policy(min_sites=2, tolerated_colluders=0, min_cell_size=DEFAULT)
        by = "group" if study.n_groups > 1 else ""
        asked = Survival(time="time", event="event", by=by, edges=tuple(study.edges.tolist()))
        found = Federation.simulate(data, policy=policy, device="cpu").run(asked)
        curves = [curve_of(counts, halved=True) for counts in study.counts(DEFAULT)]
        same += all(_same(*each) for each in zip(found.finding.curves, curves, strict=True))
        rounds.append(len(found.rounds))
    return {"runs": runs, "same": same, "most rounds": max(rounds)}


def _same(found: GroupCurve, exact: Curve) -> bool:
    named = ("survival", "low", "high")
    pairs = ((np.array(getattr(found, name), float), getattr(exact, name)) for name in named)
    return all(np.array_equal(one, other, equal_nan=True) for one, other in pairs)


def figures(seed: int, draws: int, runs: int) -> dict:
    """All classes of sizes with numbers of their own."""
    cases = [(unit, rows) for unit in UNITS for rows in CLASSES]
    pairs = [(DEFAULT, rows, group) for rows in CLASSES for group in ("first", "second")]
    numbered = [*enumerate(cases), *enumerate(pairs, FIRST_PAIR)]
    return {
        "classes": [
            measured(np.random.default_rng([seed, k]), draws, *case) for k, case in numbered
        ],
        "whole runs": whole_runs(np.random.default_rng([seed, len(cases)]), runs),
    }


def markdown(report: dict) -> str:
    """The table."""
    shares = "held", "worst edge", "true", "worst true", "medians"
    rows = [
        [
            own["unit"],
            "{:,} to {:,}".format(*own["rows"]),
            own["group"],
            f"{own['edges']:,}",
            *(f"{own[name]:.4f}" for name in shares),
            f"{own['width']:.2f}",
            f"{own['error']:.4f}",
        ]
        for own in report["classes"]
    ]
    names = ("unit", "rows", "group", "edges", "held", "worst edge", "truth held", "worst edge")
    names = (*names, "medians held", "width")
    whole = report["whole runs"]
    said = (
        f"{report['classes'][0]['draws']:,} studies each; of {whole['runs']} whole runs "
        f"{whole['same']} gave the same curves to the last bit, in at most {whole['most rounds']} "
        "rounds."
    )
    return "\n".join([said, "", *table((*names, "mean error"), rows), ""])


def main() -> None:
    """Run it."""
    made = parser(__doc__ or "", seed=1)
    made.add_argument("--draws", type=int, default=1000, help="studies of each class of sizes")
    made.add_argument("--runs", type=int, default=30, help="whole runs")
    options = made.parse_args()
    report = figures(options.seed, options.draws, options.runs)
    print(markdown(report))
    write_report(options.out, "rounded_curves", {"seed": options.seed, **report}, markdown)


if __name__ == "__main__":
    main()
