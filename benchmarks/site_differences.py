"""False names and power of the differences between sites that a run warns of.

    python benchmarks/site_differences.py --out benchmarks/results/site_differences
    python benchmarks/site_differences.py --variables 5000 --draws 500

Level: variables of their own at sites that are alike, 5 % of the values missing at random; how many
have a p-value up to 0.05, 0.01 and 0.001. `effect given its cause` is a column whose cause is
distributed differently at every site and which depends on it alike everywhere: compared given the
cause, nothing differs, and those that are not compared since they do not differ given nothing count
as alike. Names: a table of 20 variables of all kinds, alike at all sites; how often
any is named. Power: the same table, with one fault at one of the sites in one variable; how often
that variable is named, and how often any other is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from markdown_table import table
from measuring import parser, write_report

from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.site_differences import (
    differences_given_neighbours,
    differing,
    marginal_differences,
)
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.pooled_data import Columns
from cipherdag.sites.answers.site_view import SiteView

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from cipherdag.algorithms.evidence.site_differences import SiteDifference

    Draw = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]

LEVELS = (0.05, 0.01, 0.001)
SIZES = ((3, 50), (3, 500), (10, 50), (10, 500), (15, 200))
POWER_SIZES = ((3, 500), (4, 200), (4, 500), (10, 500))
MISSING = 0.05
FEWEST = 3
BATCH = 250
SKEWED = (0.6, 0.2, 0.1, 0.05, 0.02, 0.015, 0.01, 0.005)
COLUMNS: dict[str, tuple[Draw, int]] = {
    "normal": (lambda rng, size: rng.standard_normal(size), 0),
    "Cauchy": (lambda rng, size: rng.standard_cauchy(size), 0),
    "log-normal, 2": (lambda rng, size: np.exp(2.0 * rng.standard_normal(size)), 0),
    "rounded": (lambda rng, size: np.rint(1.5 * rng.standard_normal(size)), 0),
    "2 categories": (lambda rng, size: (rng.random(size) < 0.4) * 1.0, 2),
    "2, one of 2 %": (lambda rng, size: (rng.random(size) < 0.02) * 1.0, 2),
    "5 categories": (lambda rng, size: rng.choice(5, size) * 1.0, 5),
    "8, down to 0.5 %": (lambda rng, size: rng.choice(8, size, p=SKEWED) * 1.0, 8),
}
GIVEN = "effect given its cause"
TABLE = [name for name in COLUMNS for _ in range(2)] + ["normal"] * 4
FAULTS = ("unit x 10", "-999 in 2 %", "mean + 0.5 sd", "sd x 1.5", "marginals 40:60 to 60:40")


def site(values: NDArray[np.float64], categories: tuple[int, ...]) -> SiteView:
    """A site that answers from these columns; codes where there are categories."""
    discrete = np.array(categories) > 0
    codes = np.where(discrete & ~np.isnan(values), np.nan_to_num(values), -1.0).astype(np.int64)
    numbers = np.where(discrete, np.nan, values)
    return SiteView(
        codes if discrete.any() else None, None if discrete.all() else numbers, categories
    )


def found(sites: list[SiteView], joined: NDArray[np.bool_] | None = None) -> list[SiteDifference]:
    """What the sums of these sites tell; given neighbours where a skeleton is given."""
    n_variables = sites[0].n_variables
    settings = EvidenceSettings(
        spec=CITestSpec(alpha=0.01),
        n_variables=n_variables,
        max_rows=1 << 12,
        min_contributors=FEWEST,
    )

    def asking():
        columns = Columns(n_variables=n_variables, max_rows=1 << 12)
        kinds = columns.read((yield columns))
        marginal = yield from marginal_differences(kinds, settings)
        if joined is None:
            return list(marginal)
        return list((yield from differences_given_neighbours(kinds, settings, marginal, joined)))

    search, sums = asking(), None
    while True:
        try:
            question = search.send(sums)
        except StopIteration as finished:
            return finished.value
        sums = np.sum([own.answer(question) for own in sites], axis=0)
        start = 0
        for part in question.parts:
            for own in part.encodings:
                place = slice(start, start + own.length)
                start += own.length
                if own.comparison:
                    sums[place] = sums[place] > 0


def drawn(rng: np.random.Generator, names: list[str], rows: int) -> NDArray[np.float64]:
    """One site's columns of these kinds, some values missing."""
    values = np.column_stack([COLUMNS[name][0](rng, (rows,)) for name in names])
    values[rng.random(values.shape) < MISSING] = np.nan
    return values


def level(rng: np.random.Generator, name: str, n_sites: int, rows: int, variables: int) -> dict:
    """How many of the variables have small p-values where sites are alike."""
    p_values = []
    for _ in range(variables // BATCH):
        names = [name] * BATCH
        categories = (COLUMNS[name][1],) * BATCH
        sites = [site(drawn(rng, names, rows), categories) for _ in range(n_sites)]
        p_values += [own.p_value for own in found(sites)]
    return case(name, n_sites, rows, np.array(p_values))


def level_given(rng: np.random.Generator, n_sites: int, rows: int, variables: int) -> dict:
    """The same of effects, given causes that differ."""
    p_values, pairs = [], BATCH // 2
    joined = np.kron(np.eye(pairs, dtype=bool), [[False, True], [True, False]]).astype(bool)
    for _ in range(variables // pairs):
        sites = []
        for prevalence in np.linspace(0.2, 0.8, n_sites):
            cause = (rng.random((rows, pairs)) < prevalence) * 1.0
            effect = (rng.random((rows, pairs)) < 0.3 + 0.4 * cause) * 1.0
            both = np.stack([cause, effect], axis=2).reshape(rows, -1)
            sites.append(site(both, (2,) * 2 * pairs))
        told = [own.p_value for own in found(sites, joined) if own.variable % 2]
        # one that does not differ given nothing is not compared, and so not named
        p_values += told + [1.0] * (pairs - len(told))
    return case(GIVEN, n_sites, rows, np.array(p_values))


def case(name: str, n_sites: int, rows: int, p_values: NDArray[np.float64]) -> dict:
    """The figures of one cell of the first table."""
    compared = p_values[~np.isnan(p_values)]
    rates = {str(own): float((compared <= own).mean()) if len(compared) else None for own in LEVELS}
    return {
        "columns": name,
        "sites": n_sites,
        "rows": rows,
        "variables": len(p_values),
        "compared": len(compared),
        "rates": rates,
    }


def with_fault(rng: np.random.Generator, values: NDArray[np.float64], fault: str) -> int:
    """Spoil one column of one site in place; which."""
    number, pair = TABLE.index("normal"), TABLE.index("2 categories")
    own = values[:, number]
    if fault == "unit x 10":
        own[:] = 10.0 * own
    elif fault == "-999 in 2 %":
        own[rng.permutation(len(own)) < len(own) // 50] = -999.0
    elif fault == "mean + 0.5 sd":
        own += 0.5
    elif fault == "sd x 1.5":
        own *= 1.5
    else:
        turned = np.where(np.isnan(values[:, pair]), np.nan, 1.0 - values[:, pair])
        values[:, pair] = turned
        return pair
    return number


def named(rng: np.random.Generator, fault: str | None, n_sites: int, rows: int, draws: int) -> dict:
    """How often the spoilt variable is named, or coded, and how often any other."""
    categories = tuple(COLUMNS[name][1] for name in TABLE)
    hit = others = 0
    for _ in range(draws):
        values = [drawn(rng, TABLE, rows) for _ in range(n_sites)]
        spoilt = None if fault is None else with_fault(rng, values[1], fault)
        told = found([site(own, categories) for own in values])
        names = {own.variable for own in differing(told)}
        names |= {own.variable for own in told if own.coded}
        hit += spoilt in names
        others += bool(names - {spoilt})
    return {
        "fault": fault or "none",
        "sites": n_sites,
        "rows": rows,
        "draws": draws,
        "named": hit / draws,
        "others": others / draws,
    }


def markdown(report: dict) -> str:
    """Rates by columns and sizes; then how often variables are named."""
    heads = list(dict.fromkeys((own["sites"], own["rows"]) for own in report["level"]))
    names = list(dict.fromkeys(own["columns"] for own in report["level"]))
    at = {(own["columns"], own["sites"], own["rows"]): own for own in report["level"]}
    rows = [[name, *(_rates(at[name, *head]) for head in heads)] for name in names]
    first = table(["columns, sites alike", *(f"{s} x {n}" for s, n in heads)], rows)
    sizes = list(dict.fromkeys((own["sites"], own["rows"]) for own in report["names"]))
    told = {(own["fault"], own["sites"], own["rows"]): own for own in report["names"]}
    faults = list(dict.fromkeys(own["fault"] for own in report["names"]))
    rows = [[fault, *(_named(told[fault, *size]) for size in sizes)] for fault in faults]
    second = table(["fault at one site", *(f"{s} x {n}" for s, n in sizes)], rows)
    return "\n".join([*first, "", *second]) + "\n"


def _rates(own: dict) -> str:
    rates = [own["rates"][str(level)] for level in LEVELS]
    if None in rates:
        return "not compared"
    return " / ".join(f"{rate:.{3 + number // 2}f}" for number, rate in enumerate(rates))


def _named(own: dict) -> str:
    if own["fault"] == "none":
        return f"- / {own['others']:.3f}"
    return f"{own['named']:.2f} / {own['others']:.3f}"


def main() -> None:
    made = parser(__doc__, seed=1)
    made.add_argument("--variables", type=int, default=1000, help="variables of a cell")
    made.add_argument("--draws", type=int, default=50, help="tables of a cell")
    options = made.parse_args()
    rng = np.random.default_rng(options.seed)
    levels = []
    for name in (*COLUMNS, GIVEN):
        for n_sites, rows in SIZES:
            own = (n_sites, rows, options.variables)
            cell = level_given(rng, *own) if name == GIVEN else level(rng, name, *own)
            levels.append(cell)
            print(name, n_sites, rows, cell["compared"], _rates(cell), flush=True)
    names = []
    for fault in (None, *FAULTS):
        for n_sites, rows in POWER_SIZES:
            cell = named(rng, fault, n_sites, rows, options.draws * (1 if fault else 5))
            names.append(cell)
            print(fault, n_sites, rows, _named(cell), flush=True)
    figures = {"seed": options.seed, "level": levels, "names": names}
    write_report(options.out and Path(options.out), "site_differences", figures, markdown)


if __name__ == "__main__":
    main()
