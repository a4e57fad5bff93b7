"""Levels, power and coverage where rows are visits of patients.

    python benchmarks/patients.py --out benchmarks/results/patients

Every test is of a pair x, y of its own, independent given nothing or given a third column. Columns
follow the visits of a patient with an autocorrelation, and have a share of their variance between
patients. One bit of each test is opened, from the same thresholds as in a protected run. Sites'
sums are added in the clear on the grid of the protections, which open the same bits
(`tests/protocol/test_secure_rounds.py`, `tests/journeys/test_closed_features.py`). A site's tests
are computed together (`pairs_of_visits.py`), and in each cell 20 are compared with a site's. Each
cell is tested by patients, and by rows as if every row were a person.
"""

from __future__ import annotations

import math
import time
import zlib
from functools import partial
from itertools import groupby, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from calibration import FEWEST, Site
from markdown_table import table
from measuring import add_line, parser, read_lines, write_report
from pairs_of_visits import PairScores, difference
from plain_runs import driven
from scipy.stats import norm

from cipherdag import Federation, Survival
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.effect.algorithm import Effect
from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.fedboss.algorithm import FedBOSS
from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.presence import Presence
from cipherdag.sites.compute.device import PROCESSOR
from cipherdag.sites.compute.patients import Patients
from cipherdag.sites.compute.score_tests.site_scores import SiteScores
from cipherdag.sites.table.visits import MAX_VISITS
from cipherdag.statistics.p_values import WIDTH

ALPHA = 0.01
WORST, LEAST_POWER = 1.5, 0.97
BATCH_ROWS, FEWEST_AT_ONCE = 400_000, 64
"""Rows times tests that are held at a time, and tests."""
COMPARED, CLOSE = 20, 0.002
"""Tests of a cell that are compared with a site's, and by how many deviations they may differ."""
BY_ROW = 1000
"""Tests that are done by rows, too, where nothing depends."""
MEAN_VISITS = {"fifty": 50, "in turn": 4}
"""About 5 of the others."""
INFLUENCE = 0.6
"""Of the third column on x and on y."""
EFFECT = 0.3
ESTIMATORS = ("linear", "aipw")
CLOSED = 5
"""Of categories fewer graphs are learnt by this factor: searches by comparisons take longer."""
SCORED = 6
"""Columns of a graph that is learnt by scores."""


class Kind(NamedTuple):
    """Shares of the categories of x, y and the third column; none: numbers; None: no column.

    ``stable`` is the third column where it is the same at all visits of a patient.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    given: tuple[float, ...] | None = None
    stable: bool = False

    @property
    def categories(self) -> tuple[int, ...]:
        """Of each column, 0 of a number."""
        return tuple(len(each) for each in self[:3] if each is not None)


class World(NamedTuple):
    """Sites, patients of a site, their visits, autocorrelation and variance between patients."""

    sites: int
    patients: int
    visits: str
    follows: float
    between: float


TWO, RARE = (0.7, 0.3), (0.95, 0.05)
FOUR, FOUR_RARE = (0.5, 0.25, 0.15, 0.1), (0.6, 0.3, 0.07, 0.03)
KINDS = {
    "numbers": Kind((), ()),
    "numbers, given a number": Kind((), (), ()),
    "numbers, given a stable number": Kind((), (), (), stable=True),
    "2 x 2": Kind(TWO, TWO),
    "2 x 2, 5 %": Kind(RARE, RARE),
    "2 x 2, 5 %, given 2": Kind(RARE, RARE, (0.5, 0.5)),
    "4 x 4": Kind(FOUR, FOUR),
    "4 x 4, 3 %": Kind(FOUR_RARE, FOUR_RARE),
    "2 x number, given a number": Kind(TWO, (), ()),
    "4 x number": Kind(FOUR, ()),
}
WORLDS = {
    "3 x 15, five": World(3, 15, "five", 0.5, 0.5),
    "3 x 15, uneven": World(3, 15, "uneven", 0.8, 0.7),
    "3 x 15, fifty": World(3, 15, "fifty", 0.5, 0.5),
    "10 x 30, uneven, none alike": World(10, 30, "uneven", 0.0, 0.0),
    "10 x 30, five": World(10, 30, "five", 0.5, 0.5),
    "10 x 30, uneven": World(10, 30, "uneven", 0.8, 0.9),
    "5 x 100, uneven": World(5, 100, "uneven", 0.8, 0.5),
    "5 x 100, half once": World(5, 100, "half once", 0.5, 0.5),
    "wards, 3 x 15 of 50": World(3, 15, "fifty", 0.0, 0.1),
    "10 x 30, treated in turn": World(10, 30, "in turn", 0.0, 0.9),
    "10 x 500, five": World(10, 500, "five", 0.5, 0.9),
    "10 x 500, half once": World(10, 500, "half once", 0.5, 0.5),
}
INDEPENDENT = {
    "10 x 60, five": World(10, 60, "five", 0.0, 0.0),
    "10 x 60, uneven": World(10, 60, "uneven", 0.0, 0.0),
}
GRAPHS = {
    "3 x 15, uneven": WORLDS["3 x 15, uneven"],
    "3 x 40, all stable": World(3, 40, "uneven", 0.0, 1.0),
    "10 x 30, uneven": WORLDS["10 x 30, uneven"],
    "5 x 100, half once": WORLDS["5 x 100, half once"],
    "10 x 60, five, dependent": INDEPENDENT["10 x 60, five"],
    "10 x 60, five, dependent and alike": World(10, 60, "five", 0.5, 0.5),
}
"""Where FedBOSS is run; the last two have a chain of effects, which is to be found."""
LEARNT = [("FedBOSS", world) for world in GRAPHS] + [
    ("FedPC", world) for world in GRAPHS if "dependent" in world
]
OF_CHAIN = {"numbers": 0.08, "4 x 4": 0.5}
FOLLOWED, CATEGORIES = ("age", "died", "drug", "months"), (0, 2, 2, 0)
HAZARDS = {"drug": 0.4, "age": 0.3}
"""Logarithms of the ratios of hazards of rows, whoever's they are."""
STABLE = 0.5
"""Exponent of the frailty that leaves hazards of rows proportional; Kendall's tau is 1 less it."""
FRAILTY = {
    "3 x 15, uneven": World(3, 15, "uneven", 0.5, 0.5),
    "3 x 30, five": World(3, 30, "five", 0.5, 0.5),
    "3 x 100, uneven": World(3, 100, "uneven", 0.5, 0.5),
    "10 x 30, half once": World(10, 30, "half once", 0.5, 0.5),
    "3 x 100, five, no frailty": World(3, 100, "five", 0.5, 0.5),
    "3 x 30, recurrent, no effect": World(3, 30, "recurrent", 0.5, 0.5),
    "3 x 100, recurrent, no effect": World(3, 100, "recurrent", 0.5, 0.5),
}
"""Where hazard ratios are estimated."""
OF_RATIOS = (*HAZARDS, "said to differ between sites", "said to change over time")
SLOPES = {"numbers": 0.06, "2 x 2": 0.1, "4 x 4": 0.09, "4 x number": 0.07}
"""Of y on x where power is measured."""


def main() -> None:
    options = parser(__doc__, seed=2)
    options.add_argument("--tests", type=int, default=10_000, help="tests of every cell")
    options.add_argument("--runs", type=int, default=200, help="of each effect; 0: none")
    options.add_argument("--frailty", type=int, default=1000, help="of hazard ratios; 0: none")
    options.add_argument("--graphs", type=int, default=200, help="of each learnt by scores")
    options.add_argument("--worlds", nargs="+", default=[*WORLDS, *INDEPENDENT])
    options.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options.add_argument("--seconds", type=float, default=math.inf, help="begin no cell after")
    options.add_argument("--lines", type=Path, default=Path("patients.jsonl"))
    options = options.parse_args()
    begun, cases = time.monotonic(), read_lines(options.lines)
    done = {(case["world"], case["kind"]) for case in cases}
    cells = [*product(WORLDS, KINDS), *product(INDEPENDENT, SLOPES)]
    for world, kind in sorted(cells, key=cost):
        wanted = world in options.worlds and kind in options.kinds
        if not wanted or (world, kind) in done or time.monotonic() - begun > options.seconds:
            continue
        case = {"world": world, "kind": kind, "tests": options.tests, "seed": options.seed}
        cases.append(case | measured(world, kind, options.tests, options.seed))
        add_line(options.lines, cases[-1])
        print(cases[-1], flush=True)
    for (algorithm, world), kind in product(LEARNT, OF_CHAIN) if options.graphs else ():
        name = f"{algorithm}, {world}"
        if (name, kind) not in done and time.monotonic() - begun < options.seconds:
            runs = max(options.graphs // (CLOSED if KINDS[kind].x else 1), 1)
            case = {"world": name, "kind": kind, "tests": runs, "seed": options.seed}
            cases.append(case | joined(algorithm, world, kind, runs, options.seed))
            add_line(options.lines, cases[-1])
    for estimator in ESTIMATORS[: options.runs]:
        if ("effect", estimator) not in done:
            held = coverage(estimator, options.runs, options.seed)
            case = {"world": "effect", "kind": estimator, "tests": options.runs, **held}
            cases.append({**case, "seed": options.seed})
            add_line(options.lines, cases[-1])
    for world in FRAILTY if options.frailty else ():
        if (f"frailty, {world}", "drug") in done or time.monotonic() - begun > options.seconds:
            continue
        for kind, rates in hazards(world, options.frailty, options.seed).items():
            case = {"world": f"frailty, {world}", "kind": kind, "tests": options.frailty, **rates}
            cases.append(case)
            add_line(options.lines, case)
    cells += [(", ".join(graph), kind) for graph, kind in product(LEARNT, OF_CHAIN)]
    cells += [("effect", estimator) for estimator in ESTIMATORS]
    cells += [(f"frailty, {world}", kind) for world, kind in product(FRAILTY, OF_RATIOS)]
    cases.sort(key=lambda case: cells.index((case["world"], case["kind"])))
    write_report(
        options.out, "patients", {"alpha": ALPHA, "seed": options.seed, "cases": cases}, markdown
    )


def cost(cell: tuple[str, str]) -> float:
    """Cells that cost less come first, so that a run that is stopped has most of them."""
    shape = {**WORLDS, **INDEPENDENT}[cell[0]]
    return shape.sites * shape.patients * MEAN_VISITS.get(shape.visits, 5)


def measured(world: str, kind: str, tests: int, seed: int) -> dict[str, float]:
    """The shares of tests that say dependent at the level, by patients and by rows.

    Where nothing depends, the first tests alone are done by rows, too: their level is far off.
    """
    rng = np.random.default_rng((seed, zlib.crc32(f"{world} {kind}".encode())))
    shape, columns = {**WORLDS, **INDEPENDENT}[world], KINDS[kind]
    slope = SLOPES[kind] if world in INDEPENDENT else 0.0
    rows = shape.sites * shape.patients * MEAN_VISITS.get(shape.visits, 5)
    dependent: list[np.ndarray] = []
    by_row: list[np.ndarray] = []
    compare(shape, columns, slope, seed)
    while (done := sum(map(len, dependent))) < tests:
        count = min(max(BATCH_ROWS // rows, FEWEST_AT_ONCE), tests - done)
        parts = [site_rows(rng, shape, columns, count, slope) for _ in range(shape.sites)]
        dependent.append(answered(parts, columns, count, by_patient=True))
        if slope or done < BY_ROW:
            by_row.append(answered(parts, columns, count, by_patient=False))
    shares = (float(np.concatenate(each).mean()) for each in (dependent, by_row))
    return dict(zip(("by_patient", "by_row"), shares, strict=True))


def visits_of(rng, world: World) -> np.ndarray:
    """How many rows each patient of a site has."""
    size = world.patients
    if each := {"five": 5, "fifty": 50, "in turn": 4}.get(world.visits):
        return np.full(size, each)
    if world.visits == "uneven":
        return np.minimum(np.ceil(rng.lognormal(1.0, 1.1, size)).astype(int), MAX_VISITS)
    several = rng.geometric(0.12, size).clip(1, 40)
    return np.where(rng.random(size) < 0.5, 1, several)


def latent(rng, visits: np.ndarray, world: World, count: int) -> np.ndarray:
    """Normal columns, shape (rows, count), with the world's resemblance within patients."""
    patients, most = len(visits), int(visits.max())
    if world.visits == "half once":
        return few_visits(rng, visits, world, count)
    drawn = rng.normal(size=(patients, most, count))
    for visit in range(1, most):
        fresh = math.sqrt(1.0 - world.follows**2) * drawn[:, visit]
        drawn[:, visit] = world.follows * drawn[:, visit - 1] + fresh
    shared = math.sqrt(world.between) * rng.normal(size=(patients, 1, count))
    return (shared + math.sqrt(1.0 - world.between) * drawn)[np.arange(most) < visits[:, None]]


def few_visits(rng, visits: np.ndarray, world: World, count: int) -> np.ndarray:
    """The same where most patients have far fewer visits than some: none is drawn in vain."""
    first = np.cumsum(visits) - visits
    drawn = rng.normal(size=(int(visits.sum()), count))
    for visit in range(1, int(visits.max())):
        at = first[visits > visit] + visit
        drawn[at] = world.follows * drawn[at - 1] + math.sqrt(1.0 - world.follows**2) * drawn[at]
    shared = math.sqrt(world.between) * rng.normal(size=(len(visits), count))
    return shared.repeat(visits, axis=0) + math.sqrt(1.0 - world.between) * drawn


def site_rows(rng, world: World, kind: Kind, count: int, slope: float):
    """Columns of a site, shape (rows, columns count), and the patient of each row."""
    visits = visits_of(rng, world)
    x, y = (latent(rng, visits, world, count) for _ in range(2))
    columns = []
    if world.visits == "in turn":
        # each patient has both treatments equally often, and x stands for them
        turn = rng.integers(0, 2, (len(visits), count)).repeat(visits, axis=0)
        x = 2.0 * ((np.arange(len(x))[:, None] + turn) % 2) - 1.0 + 0.05 * x
    if kind.given is not None:
        same = world._replace(between=1.0) if kind.stable else world
        given = latent(rng, visits, same, count)
        shown = given if not kind.given else cut(given, kind.given)
        x, y = (each + INFLUENCE * (shown - shown.mean()) for each in (x, y))
        columns = [shown]
    y = y + slope * x
    both = [
        each if not shares else cut(each / each.std(), shares)
        for each, shares in ((x, kind.x), (y, kind.y))
    ]
    stacked = np.stack([*both, *columns], axis=2).reshape(len(x), -1)
    return stacked, np.repeat(np.arange(len(visits)), visits)


def cut(values: np.ndarray, shares: tuple[float, ...]) -> np.ndarray:
    return np.digitize(values, norm.ppf(np.cumsum(shares)[:-1])).astype(float)


class VisitSite(Site):
    """A site whose rows are visits."""

    def __init__(self, values, categories: tuple[int, ...], whose: np.ndarray) -> None:
        vars(self)["whose"] = whose
        super().__init__(values, categories)

    @property
    def patients(self):
        """The patient of each row."""
        return vars(self)["whose"]

    @property
    def visits(self) -> int:
        return MAX_VISITS


def quick(site: Site, values, whose) -> PairScores:
    """The site's tests of the same kind, done together."""
    return PairScores(site.categories, values, partial(getattr, site, "all_counts"), whose)


def compare(shape: World, kind: Kind, slope: float, seed: int) -> None:
    """Raise ValueError where tests that are done together differ from those that a site does."""
    rng, asked = np.random.default_rng((seed, 0)), []
    parts = [site_rows(rng, shape, kind, COMPARED, slope) for _ in range(shape.sites)]
    answered(
        parts, kind, COMPARED, by_patient=True, hear=lambda question, _: asked.append(question)
    )
    for values, whose in parts:
        site = VisitSite(values, kind.categories * COMPARED, whose)
        each = site.categories, site.raw_column, partial(getattr, site, "all_counts")
        one = SiteScores(*each, PROCESSOR, Patients(whose))
        if difference(one, quick(site, values, whose), asked[-1].question) > CLOSE:
            raise ValueError("tests that are done together differ from those of a site")


def answered(
    parts, kind: Kind, count: int, *, by_patient: bool, hear=lambda *_: None
) -> np.ndarray:
    """Whether each test says dependent, shape (count,)."""
    categories, sites = kind.categories * count, []
    for values, whose in parts:
        made = VisitSite(values, categories, whose) if by_patient else Site(values, categories)
        scores = quick(made, values, whose if by_patient else None)
        made.memory["scores"] = {None: scores}
        sites.append(made)
    columns = np.arange(len(categories)).reshape(count, -1)
    tests = [columns[:0, :2], columns] if kind.given is not None else [columns]
    settings = EvidenceSettings(
        spec=CITestSpec(alpha=ALPHA, name="auto"),
        n_variables=len(categories),
        min_contributors=FEWEST,
        max_rows=1 << 16,
        present=Presence(len(sites)),
        visits=MAX_VISITS if by_patient else 1,
    )

    def asking():
        source = yield from EVIDENCE["stratified"].source(settings, closed=True)
        return (yield from source.p_values(tests))

    return driven(asking(), sites, hear)[-1] <= ALPHA


def joined(algorithm: str, world: str, kind: str, runs: int, seed: int) -> dict[str, float]:
    """The share of pairs that a graph joins: of all, or of the chain where columns depend."""
    rng = np.random.default_rng((seed, zlib.crc32(f"{world} {kind} graph".encode())))
    shape, shares = GRAPHS[world], KINDS[kind].x
    slope = OF_CHAIN[kind] if "dependent" in world else 0.0
    categories, answered = (len(shares),) * SCORED, []
    for _ in range(runs):
        parts = [chain(rng, shape, shares, slope) for _ in range(shape.sites)]
        each = []
        for by_patient in (True, False):
            sites = [
                VisitSite(values, categories, whose) if by_patient else Site(values, categories)
                for values, whose in parts
            ]
            facts = Facts(
                n_variables=SCORED,
                n_sites=len(sites),
                names=tuple(f"x{number}" for number in range(SCORED)),
                min_contributors=FEWEST,
                present=Presence(len(sites)),
                visits=MAX_VISITS if by_patient else 1,
            )
            asking = (FedPC() if algorithm == "FedPC" else FedBOSS()).ask(facts)
            outcome = driven(asking, sites)
            arcs = outcome.skeleton if algorithm == "FedPC" else outcome.arcs
            pairs = np.triu(np.ones_like(arcs), k=1) & (
                np.eye(SCORED, k=1) > 0.0 if slope else True
            )
            each.append((arcs | arcs.T)[pairs].mean())
        answered.append(each)
    by_patient, by_row = np.mean(answered, axis=0)
    return {"by_patient": float(by_patient), "by_row": float(by_row)}


def chain(rng, shape: World, shares: tuple[float, ...], slope: float):
    """Columns of a site of which each depends on the one before, and the patient of each row."""
    visits = visits_of(rng, shape)
    values = latent(rng, visits, shape, SCORED)
    for number in range(1, SCORED):
        values[:, number] += slope * values[:, number - 1]
    values = cut(values / values.std(axis=0), shares) if shares else values
    return values, np.repeat(np.arange(shape.patients), visits)


def effect_rows(rng, patients: int, *, arms: bool) -> pd.DataFrame:
    """Visits with a confounder, a treatment and an outcome, all with traits of patients."""
    visits = visits_of(rng, World(1, patients, "uneven", 0.0, 0.0))
    shape = World(1, patients, "uneven", 0.5, 0.5)
    given, x, y = (latent(rng, visits, shape, 1)[:, 0] for _ in range(3))
    x = x + 0.5 * given
    if arms:
        x = (x > 0.0).astype(float)
    whose = np.repeat(np.arange(patients), visits)
    y = y + EFFECT * x + 0.5 * given
    columns = {"given": given, "x": [f"arm {int(each)}" for each in x] if arms else x, "y": y}
    return pd.DataFrame({"pid": [f"p{number}" for number in whose], **columns})


def coverage(estimator: str, runs: int, seed: int) -> dict[str, float]:
    """How often intervals of 95 % hold the effect, by patients and by rows."""
    rng = np.random.default_rng((seed, zlib.crc32(estimator.encode())))
    effect = Effect(treatment="x", outcome="y", adjust="given", estimator=estimator)
    holding = []
    for _ in range(runs):
        data = {site: effect_rows(rng, 100, arms=estimator != "linear") for site in "abc"}
        each = []
        for by_patient in (True, False):
            rows = data if by_patient else {s: own.drop(columns="pid") for s, own in data.items()}
            key = "pid" if by_patient else None
            federation = Federation.simulate(rows, patient=key, protection="none", relations=False)
            contrast = federation.run(effect).finding.sets[0].contrasts[0]
            each.append(abs(contrast.estimate - EFFECT) <= WIDTH * contrast.error)
        holding.append(each)
    by_patient, by_row = np.mean(holding, axis=0)
    return {"by_patient": float(by_patient), "by_row": float(by_row)}


def followed_rows(rng, world: World, *, frailty: bool):
    """Columns `FOLLOWED` of a site, with times until an event, and the patient of each row.

    Patients share a frailty. Hazards of rows are in the ratios `HAZARDS`, whatever a patient's
    other rows: a positive stable frailty leaves hazards proportional (Hougaard, Biometrika 73
    (1986) 387-396). Where events recur until a patient is no longer followed, a row begins with
    each, frailty is of variance 1, and the ratios are 1.
    """
    size, recurrent = world.patients, world.visits == "recurrent"
    visits = np.full(size, MAX_VISITS) if recurrent else visits_of(rng, world)
    drug = rng.integers(0, 2, size)
    age = latent(rng, visits, world, 1)[:, 0]
    whose = np.repeat(np.arange(size), visits)
    shared, share = np.ones(size), STABLE if frailty else 1.0
    if recurrent:
        shared = rng.exponential(size=size)
    elif frailty:
        # Kanter's: of the stable law whose Laplace transform is exp(-s^a)
        angle, wait = rng.uniform(0.0, math.pi, size), rng.exponential(size=size)
        shared = np.sin(share * angle) / np.sin(angle) ** (1.0 / share)
        shared *= (np.sin((1.0 - share) * angle) / wait) ** ((1.0 - share) / share)
    effect = HAZARDS["drug"] * drug[whose] + HAZARDS["age"] * age
    hazard = shared[whose] * np.exp(0.0 if recurrent else effect / share)
    waits = rng.exponential(1.0 / hazard)
    if recurrent:
        last = rng.uniform(1.0, 6.0, size)[whose]
        first = np.concatenate([np.cumsum(each) - each for each in np.split(waits, size)])
        lost = np.maximum(last - first, 0.0)
    else:
        lost = rng.exponential(2.0, len(waits))
    columns = np.column_stack([age, waits <= lost, drug[whose], np.minimum(waits, lost)])
    return columns[lost > 0.0], whose[lost > 0.0]


def hazards(world: str, runs: int, seed: int) -> dict[str, dict[str, float]]:
    """How often intervals of 95 % hold each ratio, and it is falsely said to differ or change."""
    rng = np.random.default_rng((seed, zlib.crc32(f"{world} frailty".encode())))
    shape, asked = FRAILTY[world], Survival(time="months", event="died", adjust=tuple(HAZARDS))
    truth = dict.fromkeys(HAZARDS, 0.0) if shape.visits == "recurrent" else HAZARDS
    frailty, answered = "no frailty" not in world, []
    for _ in range(runs):
        parts = [followed_rows(rng, shape, frailty=frailty) for _ in range(shape.sites)]
        each = []
        for by_patient in (True, False):
            sites = [
                VisitSite(rows, CATEGORIES, whose) if by_patient else Site(rows, CATEGORIES)
                for rows, whose in parts
            ]
            facts = Facts(
                n_variables=len(FOLLOWED),
                n_sites=len(sites),
                names=FOLLOWED,
                min_contributors=FEWEST,
                present=Presence(len(sites)),
                visits=MAX_VISITS if by_patient else 1,
            )
            analysis = asked.conclude(driven(asked.ask(facts), sites), facts)
            held = [
                one.log_ratio is not None
                and abs(one.log_ratio - truth[one.column]) <= WIDTH * one.deviation
                for one in analysis.model.ratios
            ]
            warned = " ".join(asked.report(analysis).warnings)
            each.append([*held, "differ by more than chance" in warned, "over time (p" in warned])
        answered.append(each)
    shares = np.mean(answered, axis=0)
    return {
        kind: {"by_patient": float(by_patient), "by_row": float(by_row)}
        for kind, by_patient, by_row in zip(OF_RATIOS, *shares, strict=True)
    }


def ratio(case: dict) -> float:
    return case["by_patient"] / max(case["by_row"], 1e-9)


def wilson(share: float, tests: int) -> str:
    """An interval of 95 % of a share (Wilson, 1927)."""
    z = WIDTH**2 / tests
    middle = (share + z / 2.0) / (1.0 + z)
    reach = math.sqrt(z * share * (1.0 - share) + z * z / 4.0) / (1.0 + z)
    return f"{max(middle - reach, 0.0):.4f} to {middle + reach:.4f}"


def made_of(case: dict, report: dict) -> str:
    """How many tests, and their seed where it is another one than the report's."""
    seed = case.get("seed", report["seed"])
    return f"{case['tests']:,}" + (f", seed {seed}" if seed != report["seed"] else "")


def markdown(report: dict) -> str:
    """Levels by world and kind, in bold beyond 1.5 times the level; power beside that of rows."""
    cases, parts = report["cases"], []
    levels = [case for case in cases if case["world"] in WORLDS]
    rows = []
    for world, own in groupby(levels, key=lambda case: case["world"]):
        for case in own:
            shown = f"{case['by_patient']:.4f}"
            shown = f"**{shown}**" if case["by_patient"] > WORST * ALPHA else shown
            rows.append(
                [
                    world,
                    case["kind"],
                    shown,
                    wilson(case["by_patient"], case["tests"]),
                    f"{case['by_row']:.3f}",
                    made_of(case, report),
                ]
            )
    heads = ["sites x patients, visits", "columns", "dependent, by patients", "95 %", "by rows"]
    heads += ["tests"]
    parts += table(heads, rows)
    power = [
        [case["world"], case["kind"]]
        + [f"{each:.3f}" for each in (case["by_patient"], case["by_row"], ratio(case))]
        + [made_of(case, report)]
        for case in cases
        if case["world"] in INDEPENDENT
    ]
    heads = ["independent visits", "columns", "found, by patients", "by rows", "ratio", "tests"]
    parts += ["", *table(heads, power)]
    held = [
        [case["kind"], f"{case['by_patient']:.3f}", f"{case['by_row']:.3f}", made_of(case, report)]
        for case in cases
        if case["world"] == "effect"
    ]
    graphs = [
        [*case["world"].split(", ", 1), case["kind"].replace("4 x 4", "4 categories")]
        + [f"{each:.3f}" for each in (case["by_patient"], case["by_row"])]
        + [made_of(case, report)]
        for case in cases
        if case["world"].startswith(("FedBOSS", "FedPC"))
    ]
    heads = ["6 columns", "sites x patients, visits", "kind", "joined, by patients", "by rows"]
    heads += ["graphs"]
    parts += ["", *table(heads, graphs)]
    heads = ["effect, 3 x 100 patients", "intervals that hold it, by patients", "by rows", "runs"]
    parts += ["", *table(heads, held)]
    ratios = [
        [case["world"].removeprefix("frailty, "), case["kind"]]
        + [f"{each:.3f}" for each in (case["by_patient"], case["by_row"])]
        + [case["tests"]]
        for case in cases
        if case["world"].startswith("frailty")
    ]
    heads = ["hazard ratios", "share of intervals, or runs", "by patients", "by rows", "runs"]
    return "\n".join([*parts, "", *table(heads, ratios)]) + "\n"


if __name__ == "__main__":
    main()
