"""Do the sums that an effect or a Cox model opens tell cells of 1 to 10 rows of a joint table?

    python benchmarks/step_attacks.py --out benchmarks/results/step_attacks

One of two sites attacks the other: it subtracts its answers from all that a run opens, and looks
for the table from which the program makes the rest, by Gauss-Newton steps over counts, with
independent columns as a prior. Found: how many cells of 1 to 10 rows come out exactly; guessed: by
independent columns, whose shares are given, or `from pairs`, by the tables of two columns. Cells
are those of arm and what is adjusted for; of a Cox model's predictors, by event or time. `no veto`
is without the rule that counts are 0 or at least 11, `halves` rounds the first six steps' sums so,
`policy` is the default.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from markdown_table import table
from measuring import parser, write_report
from plain_runs import driven
from scipy.optimize import nnls
from scipy.special import expit

from cipherdag import Effect, Survival
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import CipherdagError
from cipherdag.questions.estimation.effect_stages import Contribution, ModelSteps
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.questions.estimation.hazards import HazardSteps
from cipherdag.questions.question import Bundle
from cipherdag.questions.threshold import Suppressed
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.device import resolve_device
from cipherdag.sites.compute.models import effect_answer, survival_rows
from cipherdag.sites.compute.models.estimating_functions import summed_functions
from cipherdag.sites.compute.rows import FEW_LEVELS, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from cipherdag.algorithms.algorithm import Algorithm
    from cipherdag.questions.question import Question

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]

LEAST = 11
STEPS = 6
HALF = 0.5
EXACT, WEIGHED = 1e-6, 1e-2
"""Standard deviations that an attacker takes sums of rows, or of weighed rows, to have."""
REPEATS, FITTED = 3, 100
LEAST_SHARE, LEAST_TOTAL = 1e-3, 1e-6
SHARES = (0.85, 0.55, 0.15, 0.6)
TOWARDS_ARM, TOWARDS_OUTCOME = (0.3, -0.4, 0.5, 0.2), (0.4, -0.3, -0.5, 0.4)
PREDICTED, HAZARD, LOST, TOWARDS_EVENT = 0.3, 0.6, 0.8, (0.5, -0.4, 0.6)
TIMES, ROWS = (1, 3, 13), 300
ESTIMATORS = ("regression", "ipw", "aipw", "linear", "standardise")


@dataclass(frozen=True)
class Opened:
    """A question, and what it opens of the site that is attacked."""

    question: EffectSums | HazardSteps
    sums: Floats


@dataclass(frozen=True)
class Study:
    """Columns of few values, of which an attacker looks for the joint table at one site.

    Attributes:
        names: Of the columns.
        levels: How many values each has.
        numbers: Which are numbers to the program, by position; the others are categories.
        algorithm: What is run.
        sought: The columns of the table whose cells are counted.
    """

    names: tuple[str, ...]
    levels: tuple[int, ...]
    numbers: frozenset[int]
    algorithm: Algorithm[Any, Any]
    sought: tuple[int, ...]

    @property
    def cells(self) -> Codes:
        """The values of every cell, shape (cells, columns)."""
        return np.array(list(product(*map(range, self.levels))))

    def table_of(self, rows: Codes) -> Codes:
        """The joint table of rows, shape (cells,)."""
        cell = np.ravel_multi_index(tuple(rows.T), self.levels)
        return np.bincount(cell, minlength=len(self.cells))

    def independent(self, counts: Codes, together: tuple[int, ...] = ()) -> Floats:
        """What the table would be if columns were independent, but for some ``together``."""
        joint = counts.reshape(self.levels) / counts.sum()
        axes = range(joint.ndim)
        groups = [together, *((a,) for a in axes if a not in together)]
        product_of = np.full(self.levels, float(counts.sum()))
        for group in filter(None, groups):
            product_of *= joint.sum(tuple(a for a in axes if a not in group), keepdims=True)
        return product_of.ravel()

    def paired(self, counts: Codes) -> Floats:
        """The table that pairs of columns make likely, by proportional fitting."""
        true, axes = counts.reshape(self.levels).astype(float), range(len(self.levels))
        fitted = self.independent(counts).reshape(self.levels)
        for pair in [*combinations(axes, 2)] * FITTED:
            rest = tuple(a for a in axes if a not in pair)
            aim, now = (each.sum(rest, keepdims=True) for each in (true, fitted))
            fitted = fitted * np.divide(aim, now, out=np.zeros_like(aim), where=now > 0.0)
        return fitted.ravel()

    def view(self, rows: Codes, least: int) -> SiteView:
        """A site with these rows."""
        own = self._columns(rows)
        return SiteView(own.codes, own.values, own.categories, min_cell_size=least)

    def _columns(self, rows: Codes) -> Rows:
        number = np.isin(np.arange(len(self.names)), [*self.numbers])
        categories = np.where(number, 0, self.levels)
        codes = np.where(number, -1, rows)
        values = np.where(number, rows + 1.0, np.nan)
        return Rows(codes, values, tuple(categories.tolist()))

    def effect_sums(self, question: EffectSums, counts: Floats) -> Floats:
        """What a site whose table has these whole counts would answer, if it restricted nothing."""
        rows = self._columns(np.repeat(self.cells, counts.astype(int), axis=0))
        return _summed(question, summed_functions(question, rows, 0, resolve_device("cpu")))

    def hazard_sums(self, question: HazardSteps, counts: Floats, known: Floats) -> Floats:
        """Efron's step of a Cox model of any counts; each time has as many events as is known."""
        k, times = len(self.levels) - 2, self.levels[-1]
        table, x = counts.reshape(-1, 2, times), self.cells[:: 2 * times, :k].astype(float)
        ended, linear = table[:, 1], x @ question.coefficient_array()
        at_risk = np.cumsum(table.sum(axis=1)[:, ::-1], axis=1)[:, ::-1]
        upper = np.triu_indices(k)
        square = (x[:, :, None] * x[:, None])[:, upper[0], upper[1]]
        each = np.exp(linear)[:, None] * np.column_stack([np.ones(len(x)), x, square])
        value, gradient = ended.sum(axis=1) @ linear, ended.sum(axis=1) @ x
        hessian = np.zeros(len(upper[0]))
        for time, events in enumerate(known):
            share = np.arange(events) / max(events, 1)
            sums = at_risk[:, time] @ each - share[:, None] * (ended[:, time] @ each)
            total = np.maximum(sums[:, 0], LEAST_TOTAL)
            means, squares = sums[:, 1 : k + 1] / total[:, None], sums[:, k + 1 :] / total[:, None]
            value -= np.log(total).sum()
            gradient = gradient - means.sum(axis=0)
            products = (means[:, :, None] * means[:, None])[:, upper[0], upper[1]]
            hessian = hessian + (squares - products).sum(axis=0)
        return np.concatenate([[value], gradient, hessian])

    def overheard(self, sites: Sequence[SiteView]) -> list[Opened]:
        """What a run opens of the first site to all others together, until its end or refusal."""
        heard: list[Opened] = []

        def hear(asked: Question, opened: Floats) -> None:
            start = 0
            for part in asked.parts if isinstance(asked, Bundle) else (asked,):
                here = slice(start, start := start + sum(one.length for one in part.encodings))
                inner = part.question if isinstance(part, Suppressed) else part
                if _of_rows(inner):
                    known = sum(own.answer(part) for own in sites[1:])
                    heard.append(Opened(inner, opened[here] - known))

        facts = Facts(len(self.names), len(sites), names=self.names, min_contributors=2)
        try:
            driven(self.algorithm.ask(facts), sites, hear)
        except CipherdagError:
            return heard  # refused: what was opened until then is all
        return heard

    def attack(self, opened: Sequence[Opened], start: Floats, spread: float) -> Floats:
        """The table that makes the opened sums, from one that is guessed; that without any.

        ``spread`` is the standard deviation of the sums' rounding.
        """
        if not any(own.sums.any() for own in opened):
            return start
        observed = np.concatenate([_summed(own.question, own.sums) for own in opened])
        hazards = isinstance(opened[0].question, HazardSteps)
        sums, change = (self.effect_sums, 1.0)
        if hazards:
            by_time = np.rint(start.reshape(-1, 2, self.levels[-1])[:, 1].sum(axis=0)).astype(int)
            sums, change = partial(self.hazard_sums, known=by_time), 0.01

        def made(counts: Floats) -> Floats:
            return np.concatenate([sums(own.question, counts) for own in opened])  # type: ignore[arg-type]

        prior, found = 1.0 / np.sqrt(start + HALF), start if hazards else np.rint(start)
        for here in _falling(spread) if hazards or spread == WEIGHED else (spread,) * REPEATS:
            base = made(found)
            each = change * np.eye(len(found))
            slopes = np.array([made(found + one) - base for one in each]).T / change
            aim = observed - base + slopes @ found
            best, _ = nnls(
                np.vstack([slopes / here, np.diag(prior)]),
                np.concatenate([aim / here, prior * start]),
                maxiter=100 * len(found),
            )
            if not hazards:
                found = np.rint(best)
                continue

            def misfit(counts: Floats, here: float = here) -> float:
                parts = (made(counts) - observed) / here, prior * (counts - start)
                return float(sum(part @ part for part in parts))

            share = 1.0
            while share > LEAST_SHARE and misfit(found + share * (best - found)) > misfit(found):
                share /= 2.0
            best = found = found + share * (best - found)
        return best

    def exact(self, found: Floats, counts: Codes) -> Codes:
        """Of the table that is sought, cells of 1 to 10 rows, and how many are found exactly."""
        others = tuple(a for a in range(len(self.levels)) if a not in self.sought)
        found, true = (each.reshape(self.levels).sum(others) for each in (found, counts))
        small = (true > 0) & (true < LEAST)
        return np.array([small.sum(), (np.rint(found) == true)[small].sum()])


def _falling(spread: float) -> Iterator[float]:
    """From 1 down to a spread by tenths, each several times: a path to a table from far away."""
    here = 1.0
    while here > spread:
        yield from (here,) * (REPEATS - 1)
        here /= 10.0
    yield from (spread,) * REPEATS


def _summed(question: EffectSums | HazardSteps, answer: Floats) -> Floats:
    """The sums of an answer, without counts of propensities and without who contributes."""
    return answer[: question.encodings[0].length]


def _of_rows(question: Question) -> bool:
    """Whether it asks for sums over a site's rows as they are."""
    if isinstance(question, EffectSums):
        whole = not question.stage.per_part and not isinstance(question.stage, Contribution)
        return whole and not question.refutation
    return isinstance(question, HazardSteps) and not question.by_site


def patients(rng: np.random.Generator, rows: int, columns: int, levels: int = 2) -> Codes:
    """Columns adjusted for, then arm and outcome, shape (rows, columns + 2).

    The first column has so many levels, the others two.
    """
    x = (rng.random((rows, columns)) < SHARES[:columns]).astype(float)
    if levels > 2:
        x[:, 0] = rng.integers(0, levels, rows)
    scaled = x / [levels - 1, *[1] * (columns - 1)]
    arm = rng.random(rows) < expit(scaled @ TOWARDS_ARM[:columns] - 0.3)
    outcome = rng.random(rows) < expit(scaled @ TOWARDS_OUTCOME[:columns] + 0.4 * arm - 1.2)
    return np.column_stack([x, arm, outcome]).astype(np.int64)


def effect_study(columns: int, *, numbers: bool = False, levels: int = 2, **options: Any) -> Study:
    """An effect of the arm, adjusted for so many columns, which may be numbers to the program."""
    adjust = [f"x{k}" for k in range(columns)]
    algorithm = Effect(treatment="arm", outcome="outcome", adjust=",".join(adjust), **options)
    of_numbers = frozenset(range(columns)) if numbers else frozenset()
    sizes = (levels, *(2,) * (columns + 1))
    sought = tuple(range(columns + 1))
    return Study((*adjust, "arm", "outcome"), sizes, of_numbers, algorithm, sought)


@contextmanager
def without_veto() -> Iterator[None]:
    """No table withholds an effect or a Cox model."""
    with (
        patch.object(effect_answer, "_smallest_cell", lambda *_: LEAST),
        patch.object(survival_rows, "_smallest_count", lambda *_: LEAST),
    ):
        yield


def followed(rng: np.random.Generator, rows: int, columns: int, times: int) -> Codes:
    """Predictors, event and time of patients, shape (rows, columns + 2)."""
    x = (rng.random((rows, columns)) < PREDICTED).astype(np.int64)
    event = times * HAZARD * rng.exponential(np.exp(0.2 - x @ TOWARDS_EVENT[:columns]))
    lost = times * LOST * rng.exponential(size=rows)
    time = np.minimum(np.floor(np.minimum(event, lost)), times - 1)
    return np.column_stack([x, (event <= lost) & (event < times), time]).astype(np.int64)


def hazard_study(columns: int, times: int, *, by_time: bool = False) -> Study:
    """A Cox model of so many predictors, with so many different times."""
    adjust = tuple(f"x{k}" for k in range(columns))
    edges = tuple(float(time) for time in range(1, times + 2))
    algorithm = Survival(time="time", event="event", adjust=adjust, edges=edges)
    sizes = (*(2,) * (columns + 1), times)
    sought = (*range(columns), columns + by_time)
    return Study((*adjust, "event", "time"), sizes, frozenset({columns + 1}), algorithm, sought)


def figures(
    study: Study, pairs: Sequence[tuple[Codes, Codes]], *, veto: bool, halves: bool
) -> dict:
    """Cells of 1 to 10 rows, found and guessed, on average over pairs of sites' rows."""
    hazards, k = isinstance(study.algorithm, Survival), len(study.levels) - 2
    weighed = not hazards and study.algorithm.site_effect
    counted, opened_by = [], []
    for own, other in pairs:
        counts = study.table_of(own)
        start = study.independent(counts, (k, k + 1) if hazards else ())
        with nullcontext() if veto else without_veto():
            heard = study.overheard([study.view(own, LEAST), study.view(other, LEAST)])
        spread = EXACT
        if weighed and study.algorithm.estimator != "standardise":
            # steps alone are the same of a row that weighs two and of two rows
            heard, spread = [o for o in heard if isinstance(o.question.stage, ModelSteps)], WEIGHED
        if halves:
            steps = [o for o in heard if hazards or isinstance(o.question.stage, ModelSteps)][
                :STEPS
            ]
            heard = [replace(o, sums=np.rint(2.0 * o.sums) / 2.0) for o in steps]
            spread = HALF / 12**0.5
        guesses = (study.exact(one, counts)[1] for one in (start, study.paired(counts)))
        counted.append([*study.exact(study.attack(heard, start, spread), counts), *guesses])
        opened_by.append(any(o.sums.any() for o in heard))
    names = ("small", "found", "guessed", "paired")
    shares = dict(zip(names, np.mean(counted, axis=0).tolist(), strict=True))
    return {"opened": float(np.mean(opened_by)), **shares}


RULES = {"no veto": (False, False), "halves": (False, True), "policy": (True, False)}


def every_case(seed: int, draws: int) -> Iterator[dict]:
    """All studies under every rule."""
    rngs = [np.random.default_rng([seed, k]) for k in range(draws)]
    pairs = [(patients(r, ROWS, 3), patients(r, ROWS, 3)) for r in rngs]
    studies: dict[str, tuple[Study, Any]] = {}
    for estimator in ESTIMATORS:
        for site_effect in (True, False) if estimator != "standardise" else (True,):
            name = f"{estimator}, constants {'of each site' if site_effect else 'of all'}"
            own = effect_study(3, estimator=estimator, site_effect=site_effect)
            studies[name] = own, pairs
    for site_effect in (True, False):
        whose = "of each site" if site_effect else "of all"
        name = f"regression of numbers 1 and 2, constants {whose}"
        own = effect_study(3, numbers=True, estimator="regression", site_effect=site_effect)
        studies[name] = own, pairs
    refuted = effect_study(3, estimator="aipw", site_effect=False, refute=True)
    studies["aipw without a column each, constants of all"] = refuted, pairs
    for times in TIMES:
        rngs = [np.random.default_rng([seed, times, k]) for k in range(draws)]
        rows = [(followed(r, ROWS, 3, times), followed(r, ROWS, 3, times)) for r in rngs]
        named = f"Cox, {times} different time{'s' * (times > 1)}"
        studies[f"{named}, by event"] = hazard_study(3, times), rows
        if 1 < times < FEW_LEVELS:
            studies[f"{named}, by time"] = hazard_study(3, times, by_time=True), rows
    for name, (study, drawn) in studies.items():
        for rule, (veto, halves) in RULES.items():
            found = figures(study, drawn, veto=veto, halves=halves)
            yield {"study": name, "rule": rule, **found}


def markdown(report: dict) -> str:
    """The table: a study a line, rules across."""
    by_study: dict[str, dict] = {}
    for case in report["cases"]:
        by_study.setdefault(case["study"], {})[case["rule"]] = case
    lines = []
    for study, rules in by_study.items():
        first = [f"{rules['no veto'][name]:.1f}" for name in ("small", "guessed", "paired")]
        found = [f"{rules[rule]['found']:.1f}" for rule in RULES]
        share = f"{rules['policy']['opened']:.0%}"
        lines.append([study, *first, *found, share])
    names = ("study", "small cells", "guessed", "from pairs", *(f"found, {rule}" for rule in RULES))
    said = f"{report['draws']} draws of {ROWS} rows a site each, on average:"
    return "\n".join([said, "", *table((*names, "policy opens steps"), lines), ""])


def main() -> None:
    """Run it."""
    made = parser(__doc__ or "", seed=2)
    made.add_argument("--draws", type=int, default=3)
    options = made.parse_args()
    cases = list(every_case(options.seed, options.draws))
    report = {"seed": options.seed, "draws": options.draws, "cases": cases}
    print(markdown(report))
    write_report(options.out, "step_attacks", report, markdown)


if __name__ == "__main__":
    main()
