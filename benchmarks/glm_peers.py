"""`glm` evidence beside python-fedci: p-values of the same tests, and tests per second.

    pip install python-fedci
    python benchmarks/glm_peers.py --out benchmarks/results/glm_peers.json

python-fedci (AGPL-3.0) is a federated likelihood-ratio test on generalised linear models, by
iteratively reweighted least squares over summed matrices. Both sides get one table of continuous,
binary, multinomial and ordinal columns, split over sites, and the same tests; ours run under
masking with signed messages, python-fedci in its default form with additive masks between client
objects of one process, both without constants of each site's own (CLIENT_HETEROGENIETY=0,
site_effect=False). It tests both directions and combines them; p-values are compared in the
direction that we test. It takes one test at a time and loops over the rows of a multinomial
response, we take all tests of a layer in the same rounds, so the ratio grows with both; hence two
sizes. A third table is the one of its own tests (repository maxhahn/fedci, 15 rows of four
columns) six times over, as 15 rows are too few for our rule of rows per coefficient, with every
test that its columns allow.

An ordinal column as regressor is the same to both: indicators of its categories. As response it is
not. Ours is the proportional-odds model, one slope per column. python-fedci fits a logistic
regression of its own to every cut of the order, so c - 1 slopes per column, and takes a category's
probability to be the difference of two of them, its sign reversed where it is negative. So the
p-values of the two differ by design, and each is compared with statsmodels doing the same: ours
with `OrderedModel`, python-fedci's with one `Logit` per cut.

Where python-fedci is not installed the script says so and times ours alone.
"""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
from markdown_table import table
from measuring import environment, parser, timed, write_report
from scipy import stats

from cipherdag import Federation, Policy, Schema
from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.sites.policy.policy import QUESTION_KINDS
from cipherdag.sites.table.column import Column

SIZES = ((600, 4), (2000, 20))
"""Rows, and tests of each of three sizes of conditioning sets."""
CATEGORIES = (0, 2, 3, 0, 2, 4, 0, 3)
ORDERED = frozenset({2, 5})
COPIES = 6
HEADINGS = (
    "table", "rows", "tests", "ours, tests/s", "python-fedci, tests/s", "x", "x, CPU", "apart",
    "bare", "flips", "ordinal response", "ours, model", "theirs, cuts", "apart", "flips",
)  # fmt: skip
GROUPS = {"no order": False, "ordinal response": True}


@dataclass(frozen=True)
class Case:
    """A table of codes and numbers, its columns v0, v1, ..., and tests by conditioning set."""

    name: str
    data: np.ndarray
    categories: tuple[int, ...]
    ordered: frozenset[int]
    tests: list[np.ndarray]

    @property
    def rows(self) -> list[list[int]]:
        """All tests as (x, y, s1, ...)."""
        return [row for own in self.tests for row in own.tolist()]

    def response(self, row: list[int]) -> int:
        """What we regress: a longer order first, then fewer categories, a continuous one last."""
        longest = min(row[:2], key=lambda v: (v not in self.ordered, -self.categories[v], v))
        if longest in self.ordered:
            return longest
        return min(row[:2], key=lambda v: (self.categories[v] or 1 << 30, v))

    def ordinal(self) -> np.ndarray:
        """Of which tests the response has an order, shape (tests,)."""
        return np.array([self.response(row) in self.ordered for row in self.rows])

    def cells(self, *, words: bool) -> dict[str, list]:
        """Columns by name: numbers, codes in an order, and categories as words or truth values."""
        found = {}
        for v, count in enumerate(self.categories):
            own = self.data[:, v]
            if not count:
                found[f"v{v}"] = own.tolist()
            elif v in self.ordered:
                found[f"v{v}"] = own.astype(int).tolist()
            else:
                truth = count == 2 and not words
                found[f"v{v}"] = [bool(k) if truth else f"c{int(k)}" for k in own]
        return found

    def schema(self) -> Schema:
        """What we are told of the columns."""
        columns = []
        for v, count in enumerate(self.categories):
            mark = "" if v in self.ordered else "c"
            names = tuple(f"{mark}{k}" for k in range(count))
            kind = "discrete" if count else "continuous"
            columns.append(Column(f"v{v}", kind, categories=names, ordered=v in self.ordered))
        return Schema(tuple(columns))


def main() -> None:
    arguments = parse()
    cases = [drawn(*size, np.random.default_rng(arguments.seed)) for size in SIZES]
    report = {
        "sites": arguments.sites,
        "categories": CATEGORIES,
        "ordered": sorted(ORDERED),
        "seed": arguments.seed,
        "cases": [compared(case, arguments) for case in (*cases, peers_own())],
        "environment": environment("python-fedci"),
    }
    write_report(arguments.out, "glm_peers", report, markdown)


def compared(case: Case, arguments) -> dict:
    """Both on one table and the same tests."""
    count = len(case.rows)
    ours = [ours_timed(case, arguments.sites) for _ in range(arguments.repeats + 1)][1:]
    found = {"table": case.name, "rows": len(case.data), "tests": count}
    found["ours"] = figures([own[:2] for own in ours], count) | {"rounds": ours[-1][3]}
    line("cipherdag, masking", found)
    p_values, ordinal = np.concatenate(ours[-1][2]), case.ordinal()
    by_order = np.array([p_value(case, row, proportional_odds) for row in case.rows])
    found["statsmodels"] = differences(p_values[ordinal], by_order[ordinal])
    if find_spec("fedci") is None:
        print("python-fedci is not installed: nothing to compare with")
        return found | {"peer": None}
    wall, cpu, theirs = peer_timed(case, arguments.sites)
    found["peer"] = figures([(wall, cpu)], count)
    found["ratio"] = found["ours"]["tests_per_second"] / found["peer"]["tests_per_second"]
    found["cpu_ratio"] = found["peer"]["cpu_seconds"] / found["ours"]["cpu_seconds"]
    for group, is_ordinal in GROUPS.items():
        own = ordinal == is_ordinal
        found[group] = differences(p_values[own], theirs[own])
    bare = peer_timed(case, arguments.sites, bare=True)[2]
    found["bare"] = differences(p_values[~ordinal], bare[~ordinal])
    by_cut = np.array([p_value(case, row, one_logit_per_cut) for row in case.rows])
    found["peer_by_cuts"] = differences(theirs[ordinal], by_cut[ordinal])
    line("python-fedci", found, who="peer")
    named = (*GROUPS, "bare", "statsmodels", "peer_by_cuts")
    print(f"  {found['ratio']:.0f} times; apart:", {own: found[own] for own in named}, flush=True)
    return found


def markdown(report: dict) -> str:
    """One row per table."""
    intro = (
        f"{report['sites']} sites, drawn columns of {tuple(report['categories'])} categories (0: "
        f"continuous; {report['ordered']} are ordinal); `own` is the table of python-fedci's own "
        f"tests, {COPIES} times over. x: how many times as many tests a second; apart: largest "
        "difference of p-values; bare: the same where python-fedci has no ridge (0.0001) and no "
        "masks, whose rounding differs from run to run; flips: other decisions at 0.01. Without "
        "an ordinal response both do the same test. With one they do not: ours is compared with "
        "statsmodels' proportional odds (model), python-fedci's with a logistic regression per "
        "cut (cuts), and both with each other."
    )
    lines = [intro, "", *table(HEADINGS, map(cells_of, report["cases"]))]
    return "\n".join(lines) + "\n"


def cells_of(own: dict) -> list:
    """The row of one table."""
    start = [own["table"], own["rows"], own["tests"], f"{own['ours']['tests_per_second']:.1f}"]
    if own["peer"] is None:
        return [*start, "not installed"]
    plain, ordinal = (own[group] for group in GROUPS)
    return [
        *start, f"{own['peer']['tests_per_second']:.1f}", f"{own['ratio']:.0f}",
        f"{own['cpu_ratio']:.0f}", f"{plain['largest']:.1e}", f"{own['bare']['largest']:.1e}",
        f"{plain['other_decisions']} of {plain['tests']}", f"{ordinal['tests']} tests",
        f"{own['statsmodels']['largest']:.1e}", f"{own['peer_by_cuts']['largest']:.1e}",
        f"{ordinal['largest']:.2f}", ordinal["other_decisions"],
    ]  # fmt: skip


def drawn(rows: int, tests_of_a_size: int, rng: np.random.Generator) -> Case:
    """Columns as in CATEGORIES that depend on their two left neighbours."""
    values = np.zeros((rows, len(CATEGORIES)))
    for v, count in enumerate(CATEGORIES):
        pull = values[:, max(v - 2, 0) : v].sum(axis=1) * 0.4
        if v in ORDERED:
            cuts = np.linspace(-1.0, 1.5, count - 1)
            values[:, v] = np.digitize(0.5 * pull + rng.logistic(size=rows), cuts)
        elif count:
            noise = rng.gumbel(size=(rows, count))
            values[:, v] = (noise + np.outer(pull, np.linspace(-0.7, 0.7, count))).argmax(axis=1)
        else:
            values[:, v] = pull + rng.standard_normal(rows)
    tests = [own_tests(size, tests_of_a_size, rng) for size in range(3)]
    return Case("drawn", values, CATEGORIES, ORDERED, tests)


def own_tests(size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct tests given ``size`` variables: rows (x, y, s1, ...), shape (count, 2 + size)."""
    found: dict[tuple, None] = {}
    while len(found) < count:
        x, y, *given = rng.permutation(len(CATEGORIES))[: size + 2].tolist()
        found[min(x, y), max(x, y), *sorted(given)] = None
    return np.array(list(found))


def peers_own() -> Case:
    """The table of python-fedci's tests: a truth value, an order, a category and a number."""
    truth = [1, 1, 1, 0, 0, 0] * 2 + [1, 1, 1]
    order = [0, 1, 2] * 5
    category = [0] * 5 + [1] * 5 + [0] * 3 + [1] * 2
    number = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0] * 2 + [3.5, 1.5, 2.5]
    values = np.tile(np.column_stack([truth, order, category, number]), (COPIES, 1))
    tests = []
    for size in range(3):
        rows = []
        for x, y in combinations(range(4), 2):
            rest = sorted({0, 1, 2, 3} - {x, y})
            rows += [[x, y, *given] for given in combinations(rest, size)]
        tests.append(np.array(rows))
    return Case("own", values, (2, 3, 2, 0), frozenset({1}), tests)


def ours_timed(case: Case, sites: int):
    """Wall and processor seconds, p-values by size, rounds."""
    data = pd.DataFrame(case.cells(words=True))
    federation = Federation.simulate(
        {f"site{k}": data.iloc[a:b] for k, (a, b) in enumerate(parts(case, sites))},
        schema=case.schema(),
        policy=Policy(questions=QUESTION_KINDS, min_cell_size=0, max_values=2**53),
        device="cpu",
    )

    def asking(facts):
        settings = EvidenceSettings(spec=CITestSpec(alpha=0.01), n_variables=facts.n_variables)
        source = yield from EVIDENCE["glm"].open(settings)
        return (yield from source.p_values(case.tests))

    wall, cpu, done = timed(federation.ask, "fedpc", asking)
    return wall, cpu, done.outcome, len(done.rounds)


def peer_timed(case: Case, sites: int, *, bare: bool = False):
    """Wall and processor seconds, and the p-values in the direction that we test."""
    os.environ["CLIENT_HETEROGENIETY"] = "0"
    os.environ["RIDGE"] = "0" if bare else "0.0001"
    os.environ["ADDITIVE_MASKING"] = "0" if bare else "1"
    import fedci
    import polars as pl

    table = case.cells(words=False)
    clients = [
        fedci.Client(f"site{k}", pl.DataFrame({name: own[a:b] for name, own in table.items()}))
        for k, (a, b) in enumerate(parts(case, sites))
    ]
    server = fedci.Server(clients)

    def p_of(row):
        x, y, *given = row
        found = server.test(f"v{x}", f"v{y}", [f"v{k}" for k in given])
        both = (found.lrt1, found.lrt2)
        side = f"v{case.response(row)}"
        return next(own.p_value for own in both if own.response == side)

    return timed(lambda: np.array([p_of(row) for row in case.rows]))


def p_value(case: Case, row: list[int], likelihood) -> float:
    """Of a test with an ordinal response, on all rows at one place; NaN of another one."""
    response = case.response(row)
    if response not in case.ordered:
        return np.nan
    other = next(v for v in row[:2] if v != response)
    small, slopes_small = likelihood(case, response, row[2:])
    large, slopes_large = likelihood(case, response, [*row[2:], other])
    return float(stats.chi2.sf(2.0 * (large - small), slopes_large - slopes_small))


def proportional_odds(case: Case, response: int, predictors: list[int]) -> tuple[float, int]:
    """Log likelihood by statsmodels, and number of slopes."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    codes = case.data[:, response].astype(int)
    design = columns_of(case, predictors)
    if not design.shape[1]:
        rows = np.bincount(codes)
        return float(rows @ np.log(rows / rows.sum())), 0
    found = OrderedModel(codes, design, distr="logit").fit(method="newton", disp=0, maxiter=200)
    return float(found.llf), design.shape[1]


def one_logit_per_cut(case: Case, response: int, predictors: list[int]) -> tuple[float, int]:
    """The same of a logistic regression per cut, as python-fedci takes them together."""
    import statsmodels.api as sm

    codes, count = case.data[:, response].astype(int), case.categories[response]
    design = columns_of(case, predictors)
    both = np.column_stack([np.ones(len(codes)), design])
    below = [
        sm.Logit((codes <= k).astype(float), both).fit(disp=0, method="newton").predict()
        for k in range(count - 1)
    ]
    chance = np.diff(np.column_stack(below), axis=1, prepend=0.0, append=1.0)
    crossed = (chance < 0).any(axis=1)
    chance[crossed] = np.abs(chance[crossed]) / np.abs(chance[crossed]).sum(axis=1, keepdims=True)
    own = np.maximum(chance[np.arange(len(codes)), codes], 1e-8)
    return float(np.log(own).sum()), design.shape[1] * (count - 1)


def columns_of(case: Case, predictors: list[int]) -> np.ndarray:
    """Numbers, and indicators of all categories but the first."""
    parts = [np.zeros((len(case.data), 0))]
    for v in predictors:
        own = case.data[:, [v]]
        count = case.categories[v]
        parts.append((own == np.arange(1, count)).astype(float) if count else own)
    return np.column_stack(parts)


def parts(case: Case, sites: int) -> list[tuple[int, int]]:
    """First and last row of every site."""
    ends = np.linspace(0, len(case.data), sites + 1).astype(int)
    return list(pairwise(ends.tolist()))


def differences(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    apart = np.abs(ours - theirs)
    return {
        "tests": len(apart),
        "largest": float(apart.max()),
        "median": float(np.median(apart)),
        "other_decisions": int(((ours > 0.01) != (theirs > 0.01)).sum()),
    }


def figures(taken, count: int) -> dict[str, float]:
    wall, cpu = (statistics.median(own[k] for own in taken) for k in (0, 1))
    return {
        "seconds": wall, "cpu_seconds": cpu, "every_second": [own[0] for own in taken],
        "tests_per_second": count / wall,
    }  # fmt: skip


def line(name: str, found: dict, who: str = "ours") -> None:
    own = found[who]
    print(
        f"{found['rows']} rows, {found['tests']} tests, {name}: {own['seconds']:.2f} s, "
        f"{own['cpu_seconds']:.2f} s of processor, {own['tests_per_second']:.1f} tests per second",
        flush=True,
    )


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("--sites", type=int, default=4)
    options.add_argument("--repeats", type=int, default=3)
    return options.parse_args()


if __name__ == "__main__":
    main()
