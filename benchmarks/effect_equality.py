"""Are effects and survival over sites those of other people's programs on all rows in one place?

    python benchmarks/effect_equality.py --out benchmarks/results/effect_equality
    python benchmarks/effect_equality.py --federations 20

Federations are drawn at random: 3 to 10 sites of uneven sizes, numbers on any scale and categories,
missing values or none, a treatment of two or three categories or numbers, an outcome of numbers or
of two categories, and any set to adjust for, with constants of each site's own or without. Runs
that are refused, as where a site lacks an arm, are not compared. Of survival exact or rounded
times, two to four groups, any bins. Sums are in the clear, on the grid of every protection; every
fiftieth federation runs under masking, too. The worst of all is given: of an estimate the distance
from the other program's as a share of the estimate or of its standard error, whichever is larger,
and of a standard error as a share of it. `statsmodels` has treatments of two categories, without
truncation.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING
from unittest.mock import patch

import effect_peers
import numpy as np
import pandas as pd
import survival_peers
from markdown_table import table
from measuring import parser, write_report
from plain_runs import driven

from cipherdag import Effect, Federation, Policy, Survival
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import DataError
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.models import steps
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import QUESTION_KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cipherdag.algorithms.algorithm import Algorithm

EVERY = 50
"""Of so many federations one runs under masking, too."""
MOST_SITES, FEWEST_ROWS = 10, 60
Deviations = "Iterator[tuple[str, str, float, float | None]]"


@dataclass(frozen=True)
class Drawn:
    """The rows of a federation: columns in alphabetical order, and the site of every row."""

    rows: pd.DataFrame
    site: NDArray[np.int64]

    @property
    def sites(self) -> dict[str, pd.DataFrame]:
        """The rows of every site."""
        return {f"site-{k}": self.rows[self.site == k] for k in range(self.site.max() + 1)}

    def plainly(self, algorithm: Algorithm) -> object:
        """What an algorithm concludes of sums in the clear."""
        schema = infer_schema(list(self.sites.values()))
        categories = tuple(column.cardinality for column in schema.variables)
        names = tuple(column.name for column in schema.variables)
        whole = np.column_stack([_codes(self.rows[name]) for name in names])
        discrete = np.array(categories) > 0
        codes = np.where(discrete, np.nan_to_num(whole, nan=-1.0), -1.0).astype(np.int64)
        values = np.where(discrete, np.nan, whole)
        sites = [
            SiteView(codes[own], values[own], categories)
            for own in (self.site == k for k in range(self.site.max() + 1))
        ]
        facts = Facts(len(names), len(sites), names=names, min_contributors=1)
        return algorithm.conclude(driven(algorithm.ask(facts), sites), facts)

    def masked(self, algorithm: Algorithm) -> object:
        """What it concludes of masked sums."""
        policy = Policy(min_cell_size=0, questions=QUESTION_KINDS)
        return Federation.simulate(self.sites, policy=policy, device="cpu").run(algorithm).finding


def _codes(column: pd.Series) -> NDArray[np.float64]:
    if column.dtype.kind == "f":
        return column.to_numpy()
    codes = pd.factorize(column, sort=True)[0].astype(np.float64)
    return np.where(codes < 0, np.nan, codes)


def dealt(rng: np.random.Generator, rows: int) -> NDArray[np.int64]:
    """A site for every row: 3 to 10 of them, uneven."""
    sites = int(rng.integers(3, MOST_SITES + 1))
    spare = rng.multinomial(rows - sites * FEWEST_ROWS, rng.dirichlet(np.full(sites, 0.7)))
    return np.repeat(np.arange(sites), spare + FEWEST_ROWS)


def causes(rng: np.random.Generator, rows: int, site: NDArray) -> dict[str, NDArray]:
    """Two numbers and two categories, not independent, that differ between sites."""
    age = rng.normal(0.15 * site, 1.0, rows)
    burden = rng.gamma(2.0, 1.0, rows) + 0.3 * age
    sex = (rng.random(rows) < 0.45) * 1
    stage = np.digitize(
        0.4 * age + rng.normal(size=rows), np.linspace(-0.8, 0.9, rng.integers(1, 4))
    )
    return {"age": age, "burden": burden - 2.0, "sex": sex, "stage": stage}


def words(codes: NDArray) -> NDArray[np.object_]:
    """Categories by letters."""
    return np.array(list("abcdefgh"), dtype=object)[codes]


def on_any_scale(rng: np.random.Generator, numbers: NDArray) -> NDArray[np.float64]:
    """In some unit, from some origin."""
    unit = 10.0 ** rng.uniform(-3.0, 4.0)
    return unit * (numbers + rng.uniform(-20.0, 20.0))


def with_gaps(rng: np.random.Generator, rows: pd.DataFrame) -> pd.DataFrame:
    """Half of all tables miss values."""
    share = float(rng.choice([0.0, 0.02]))
    found = rows.copy()
    for name in found:
        gap = rng.random(len(found)) < share
        found[name] = found[name].mask(gap, np.nan if found[name].dtype.kind == "f" else None)
    return found


def of_effects(rng: np.random.Generator) -> tuple[Drawn, str, str]:
    """Rows, and the kinds of treatment and outcome."""
    rows = int(rng.integers(1200, 4000))
    site = dealt(rng, rows)
    own = causes(rng, rows, site)
    treatment = str(rng.choice(["two", "three", "number"]))
    outcome = str(rng.choice(["number", "category"]))
    push = rng.uniform(-0.5, 0.5, 4) @ np.array(list(own.values()))
    arms = 3 if treatment == "three" else 2
    drug = (rng.gumbel(size=(rows, arms)) + push[:, None] * np.arange(arms)).argmax(axis=1)
    dose = drug if treatment != "number" else push + rng.normal(size=rows)
    mean = 0.7 * dose + rng.uniform(-0.6, 0.6, 4) @ np.array(list(own.values()))
    effect = mean + rng.normal(size=rows) * rng.uniform(0.5, 2.0)
    table_of = {
        "age": on_any_scale(rng, own["age"]),
        "burden": on_any_scale(rng, own["burden"]),
        "sex": words(own["sex"]),
        "stage": words(own["stage"]),
        "drug": on_any_scale(rng, dose) if treatment == "number" else words(drug),
        "well": on_any_scale(rng, effect)
        if outcome == "number"
        else words((rng.random(rows) < 1.0 / (1.0 + np.exp(-mean))) * 1),
    }
    return Drawn(with_gaps(rng, pd.DataFrame(table_of)), site), treatment, outcome


def effect_deviations(rng: np.random.Generator, *, masked: bool) -> Deviations:
    """Estimator, program, worst distance of estimates and of standard errors."""
    drawn, treatment, outcome = of_effects(rng)
    adjust = [own for own in ("age", "burden", "sex", "stage") if rng.random() < 0.6]
    pairs = [*product(("linear", "ipw", "regression", "aipw"), (False, True))]
    for estimator, site_effect in (*pairs, ("standardise", True)):
        if treatment == "number" and estimator != "linear":
            continue
        strata = [own for own in adjust if own in ("sex", "stage")]
        asked = Effect(
            treatment="drug",
            outcome="well",
            adjust=",".join(strata if estimator == "standardise" else adjust),
            estimator=estimator,
            site_effect=site_effect,
            truncate=float(rng.choice([0.0001, 0.01, 0.1])),
            reference=1 if treatment == "number" else int(rng.integers(1, 3)),
        )
        logistic = outcome == "category" and estimator in ("regression", "aipw")
        if not (site_effect and logistic):  # a site's share of 0 or 1 has no finite indicator
            yield from deviations_of(drawn, asked, masked=masked)


def deviations_of(drawn: Drawn, asked: Effect, *, masked: bool) -> Deviations:
    """The same of one estimator; none where the run is refused, as where a site lacks an arm."""
    used = [own for own in asked.adjust.split(",") if own]
    complete = drawn.rows[["drug", "well", *used]].notna().all(axis=1).to_numpy()
    rows, site = drawn.rows[complete], drawn.site[complete]
    for way in ("plainly", "masked") if masked else ("plainly",):
        try:
            # other programs have slopes that all sites share
            with patch.object(steps, "ROWS_PER_COEFFICIENT", sys.maxsize):
                (found,) = getattr(drawn, way)(asked).sets
        except DataError:
            return
        assert found.rows == len(rows), (asked, found)
        strata = ", within sites" if asked.site_effect else ""
        mark = ", masked" if way == "masked" else ""
        for program, known in effect_peers.of(asked, rows, site).items():
            own = [one for one in found.contrasts if one.scale == "difference"]
            yield f"{asked.estimator}{strata}{mark}", program, *compared(own, known)


def compared(own: list, known: tuple[NDArray, NDArray | None]) -> tuple[float, float | None]:
    """The worst distance of estimates, and of errors."""
    estimates = np.array([one.estimate for one in own])
    errors = np.array([one.error for one in own])
    return distances(estimates, errors, *known)


def distances(
    estimates: NDArray,
    errors: NDArray | None,
    known: NDArray,
    known_errors: NDArray | None,
) -> tuple[float, float | None]:
    """Of estimates as a share of these or of their errors; of errors as a share of these."""
    chance = errors if known_errors is None else known_errors
    size = np.abs(known) if chance is None else np.maximum(np.abs(known), chance)
    off = float((np.abs(estimates - known) / size).max())
    if known_errors is None:
        return off, None
    return off, float((np.abs(errors - known_errors) / known_errors).max())


def of_survival(rng: np.random.Generator) -> Drawn:
    """Patients followed until an event, with exact times or rounded ones."""
    rows = int(rng.integers(800, 1600))
    site = dealt(rng, rows)
    own = causes(rng, rows, site)
    arm = rng.integers(0, rng.integers(2, 5), rows)
    push = 0.2 * arm + rng.uniform(-0.4, 0.4, 4) @ np.array(list(own.values())) + 0.2 * (site % 3)
    dies = rng.exponential(20.0 / np.exp(push - push.mean()))
    lost = rng.uniform(2.0, 40.0, rows)
    months = np.minimum(dies, lost)
    table_of = {
        "age": on_any_scale(rng, own["age"]),
        "arm": words(arm),
        "died": np.where(dies <= lost, "yes", "no"),
        "months": np.ceil(months * 4.0) / 4.0 if rng.random() < 0.5 else months,
        "sex": words(own["sex"]),
        "stage": words(own["stage"]),
    }
    return Drawn(with_gaps(rng, pd.DataFrame(table_of)), site)


def survival_deviations(rng: np.random.Generator, *, masked: bool) -> Deviations:
    """Figure, program, worst distance of estimates and of standard errors."""
    drawn = of_survival(rng)
    chosen = tuple(own for own in ("age", "arm", "sex", "stage") if rng.random() < 0.6) or ("arm",)
    edges = tuple(np.unique(rng.uniform(0.5, 35.0, rng.integers(3, 30)).round(1)).tolist())
    used = ["months", "died", "arm", *chosen]
    complete = drawn.rows[used].notna().all(axis=1).to_numpy()
    rows, site = drawn.rows[complete], drawn.site[complete]
    for one_hazard in (False, True):
        algorithm = Survival(
            censored="after",
            time="months", event="died", by="arm", adjust=chosen, edges=edges,
            site_effect=not one_hazard,
        )  # fmt: skip
        for way in ("plainly", "masked") if masked else ("plainly",):
            found = getattr(drawn, way)(algorithm)
            mark = ", masked" if way == "masked" else ""
            known = survival_peers.of(found, rows, site, one_hazard=one_hazard)
            for name, (estimates, errors, *theirs) in known.items():
                yield f"{name}{mark}", "statsmodels", *distances(estimates, errors, *theirs)


DRAWS = {"effects": effect_deviations, "survival": survival_deviations}


def figures(seed: int, federations: int) -> dict:
    """The worst deviations of each."""
    worst: dict[tuple[str, str, str], list] = defaultdict(lambda: [0, 0.0, None])
    refused: dict[str, int] = defaultdict(int)
    for number in range(federations):
        for kind, draw in DRAWS.items():
            rng = np.random.default_rng([seed, number, len(kind)])
            try:
                for name, program, off, error in draw(rng, masked=number % EVERY == 0):
                    own = worst[kind, name, program]
                    own[0] += 1
                    own[1] = max(own[1], off)
                    if error is not None:
                        own[2] = max(own[2] or 0.0, error)
            except DataError as reason:
                refused[str(reason)] += 1
        print(number, dict(refused), max(own[1] for own in worst.values()), flush=True)
    lines = [
        {"kind": kind, "name": name, "program": program, "runs": n, "estimate": off, "error": error}
        for (kind, name, program), (n, off, error) in sorted(worst.items())
    ]
    return {"seed": seed, "federations": federations, "refused": dict(refused), "worst": lines}


def markdown(report: dict) -> str:
    """The worst deviation of each."""
    rows = [
        [
            own["name"], own["program"], own["runs"], f"{own['estimate']:.0e}",
            "" if own["error"] is None else f"{own['error']:.0e}",
        ]
        for own in report["worst"]
    ]  # fmt: skip
    heads = ("what", "beside", "runs", "worst estimate", "worst standard error")
    return "\n".join(table(heads, rows)) + "\n"


def main() -> None:
    made = parser(__doc__, seed=1)
    made.add_argument("--federations", type=int, default=200)
    options = made.parse_args()
    report = figures(options.seed, options.federations)
    print(markdown(report))
    write_report(options.out, "effect_equality", report, markdown)


if __name__ == "__main__":
    main()
