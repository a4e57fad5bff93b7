"""False positives and power of every kind of evidence, where sites are alike and where they differ.

    python benchmarks/calibration.py --lines calibration.jsonl --out benchmarks/results/calibration
    python benchmarks/calibration.py --tests 500 --columns categories

Every test is of a pair x, y, given s or nothing, of its own. Worlds: `alike`; `marginals`: levels
of every site's own (of categories the distribution of s, or without s of x and of y; of numbers and
mixtures constants of standard deviation 0.3); `mechanisms`: the distributions of x and of y given s
as well. False positives are counted where x and y are independent given s at every site, power
where all sites have the same weak dependence, of which the test of the pooled data would find about
four of five. A test that a kind does not do, for want of rows, is neither: the share of tests done
stands in the figures, and a cell of which fewer than 1 % are done is silent. Mixtures have a tenth
of the tests, since every one is fitted by Newton steps. `kci` is left out: it takes numbers like
Fisher's z, and a thousand times as long.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from calibration_tables import markdown
from calibration_worlds import COLUMNS, GIVEN, WORLDS, Cell, draw
from measuring import add_line, parser, read_lines, write_report
from plain_runs import driven

from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.presence import Presence
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest
from cipherdag.sites.compute.ci_tests.regression import RegressionTest

ALPHAS = (0.01, 0.05)
VOTE_SHARE = 0.3
BATCH = 250
FEWEST = 3
MIXTURE_SHARE = 10
PAIR = 2
SIZES = ((3, 1000), (10, 500), (10, 100), (15, 40))
"""Sites, and rows of each: from rich to sparse."""


@dataclass(frozen=True)
class Method:
    """A kind of evidence with a test, for columns of some kinds."""

    evidence: str
    test: str
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.evidence if self.test == "auto" else f"{self.evidence}, {self.test}"


TABLES, NUMBERS, MIXTURES = (own for own in (("categories",), ("numbers",), ("mixtures",)))
METHODS = (
    Method("stratified", "auto", COLUMNS),
    *(Method("fisher", test, TABLES) for test in ("auto", "pearson", "g2")),
    Method("fisher", "fisherz", NUMBERS),
    Method("fisher", "regression", MIXTURES),
    Method("weighted_p", "g2", TABLES),
    Method("weighted_p", "fisherz", NUMBERS),
    Method("vote", "g2", TABLES),
    Method("vote", "fisherz", NUMBERS),
    Method("pooled", "g2", TABLES),
    Method("pooled", "fisherz", NUMBERS),
    Method("glm", "auto", MIXTURES),
)

EVIDENCE_KINDS = tuple(dict.fromkeys(own.evidence for own in METHODS))


def main() -> None:
    arguments = parse()
    cases = read_lines(arguments.lines)
    done = {key(case) for case in cases}
    for cell in cells(arguments.columns):
        heads = {own: {"method": own.name, **asdict(cell)} for own in METHODS}
        left = [
            own
            for own, case in heads.items()
            if cell.columns in own.columns
            and own.evidence in arguments.evidence
            and key(case) not in done
        ]
        found = (
            measure(cell, left, arguments.tests, arguments.seed, arguments.min_cell_size)
            if left
            else {}
        )
        for method, figures in found.items():
            cases.append(heads[method] | figures)
            add_line(arguments.lines, cases[-1])
            print(cases[-1], flush=True)
    write_report(arguments.out, "calibration", {"cases": cases}, markdown)


def key(case: dict) -> tuple:
    return tuple(case[own] for own in ("columns", "given", "sites", "rows", "world", "method"))


def cells(columns: list[str]) -> list[Cell]:
    """All cells; a pair of numbers has no mechanism but its levels."""
    return [
        Cell(own, given, sites, rows, world)
        for own in columns
        for world in (*WORLDS, "power")
        for given in GIVEN[own]
        for sites, rows in SIZES
        if not (world == "mechanisms" and len(GIVEN[own][given]) == PAIR)
    ]


def measure(
    cell: Cell, methods: list[Method], tests: int, seed: int, least: int
) -> dict[Method, dict]:
    """How many of a cell's tests each method does, and of those how many it finds dependent."""
    tests = tests if cell.columns != "mixtures" else max(tests // MIXTURE_SHARE, 1)
    name = f"{cell.columns} {cell.given} {cell.sites} {cell.rows} {cell.world}"
    rng = np.random.default_rng((seed, zlib.crc32(name.encode())))
    outcomes: dict[Method, list] = {own: [] for own in methods}
    for start in range(0, tests, BATCH):
        parts = draw(cell, min(BATCH, tests - start), rng)
        sites = [Site(part, cell.categories * min(BATCH, tests - start), least) for part in parts]
        for method, own in outcomes.items():
            own.append(decisions(cell.categories, method, sites))
    return {method: figures(own) for method, own in outcomes.items()}


def figures(outcomes: list) -> dict:
    """Tests, the share that is done, and of those the share found dependent by level."""
    done = np.concatenate([own for own, _ in outcomes])
    dependent = np.concatenate([own for _, own in outcomes], axis=1)
    rates = (dependent & done).sum(axis=1) / max(done.sum(), 1)
    named = {str(alpha): float(rate) for alpha, rate in zip(ALPHAS, rates, strict=True)}
    return {"tests": len(done), "done": float(done.mean()), "rates": named}


def decisions(categories: tuple[int, ...], method: Method, sites: list[Site]) -> tuple:
    """Which tests are done, shape (B,), and found dependent, shape (levels, B)."""
    width, n_variables = len(categories), sites[0].n_variables
    tests = np.arange(n_variables).reshape(-1, width)
    if method.evidence == "vote":
        return votes(sites, tests, method)
    blocks = [np.zeros((0, 2 + size), dtype=np.int64) for size in range(width - 2)]
    spec = CITestSpec(alpha=0.01, name=method.test)
    settings = EvidenceSettings(
        spec=spec,
        n_variables=n_variables,
        min_contributors=FEWEST,
        max_rows=1 << 14,
        present=Presence(len(sites)),
    )

    def asking():
        source = yield from EVIDENCE[method.evidence].open(settings)
        return (yield from source.p_values([*blocks, tests]))

    p_value = driven(asking(), sites)[-1]
    return ~np.isnan(p_value), np.array([p_value <= alpha for alpha in ALPHAS])


def votes(sites: list[Site], tests, method: Method) -> tuple:
    """The paper's rule: dependent iff more than 30 % of the sites do not find independence."""
    p_value = np.array(
        [
            own.test(method.test).evaluate(tests[:, 0], tests[:, 1], tests[:, 2:]).p_value
            for own in sites
        ]
    )
    done = ~np.isnan(p_value).any(axis=0)
    kept = [(~(p_value > alpha)).mean(axis=0) > VOTE_SHARE for alpha in ALPHAS]
    return done, np.array(kept)


class Site(SiteView):
    """A site that answers from an array of codes and numbers."""

    def __init__(self, values, categories: tuple[int, ...], least: int = 0) -> None:
        discrete = np.array(categories) > 0
        codes = np.where(discrete, values, -1).astype(np.int64)
        numbers = np.where(discrete, np.nan, values)
        vars(self)["arrays"] = codes, values.astype(np.float64)
        super().__init__(
            codes if discrete.any() else None,
            numbers if not discrete.all() else None,
            categories,
            min_cell_size=least,
            make_test=lambda spec: self.named(spec.name, rows_per_cell=spec.min_rows_per_cell),
        )

    def named(self, name: str, *, rows_per_cell: float = 5.0):
        """The test of this name over the site's own rows."""
        codes, values = self.arrays
        if name == "regression":
            return RegressionTest(self.categories, lambda v: values[:, v])
        if name == "g2" or name.startswith("pearson"):
            statistic = name[: len("pearson")]
            return DiscreteTest(codes, statistic=statistic, min_rows_per_cell=rows_per_cell)
        return FisherZTest(values)


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("--tests", type=int, default=10_000, help="tests of every cell")
    options.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    options.add_argument(
        "--evidence", nargs="+", choices=EVIDENCE_KINDS, default=list(EVIDENCE_KINDS)
    )
    options.add_argument("--min-cell-size", type=int, default=0, help="of every site")
    options.add_argument("--lines", type=Path, default=Path("calibration.jsonl"))
    return options.parse_args()


if __name__ == "__main__":
    main()
