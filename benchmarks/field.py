"""Graphs from columns of all kinds, at sites that are alike and that differ, by ours and by peers.

    OMP_NUM_THREADS=1 python benchmarks/field.py DATA_FOLDER --lines field.jsonl

DATA_FOLDER is what `fedpc_data` reads. Networks and linear models have 5,000 rows at ten sites
unless their name says another number, split unevenly; mixed models (`mixed_models`) 600 rows at
each of five; additive categories, 12 columns of three with a logit from each cause (three quarters
of the effects of mixed models), 300 rows at each of five; curves, 12 numbers that are sums of tanh
and sine of their causes, 600 rows at each of five; independent columns, which have no edge, 40 rows
at each of five. With levels of its own, each site adds a constant to every number, normal with half
the column's standard deviation, and draws categories without a cause from shares uniform on the
simplex; mixed and additive models say what differs there, and curves add normal constants. With
spreads of its own it multiplies each number by a half to two; with half the tables it draws the
tables of half the variables anew, uniform on the simplex. Sites have the default policy, but for
methods `open`, whose sites allow every count. `scores alone` is without the edges and colliders
that tests give to FedBOSS. Peers have all rows at one place and read categories
as whole numbers. A case says by which revision it was measured, if not by 779d18cc or an earlier
one. Finished cases are read from --lines. --out writes JSON and Markdown.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from adjustment_distance import adjustment_distance
from bif import read_bif
from boss_sites import with_own_levels
from fedpc_data import NETWORKS, ROWS, draw, model_rows, random_dag
from measuring import bytes_per_site, figure_table, parser, revision, run_cases, timed
from mixed_models import mixed_model, name_of
from score_peers import PEERS
from sites_that_differ import with_own_tables

from cipherdag import CausalGraph, FedBOSS, Federation, FedPC, Policy
from cipherdag.algorithms.fedboss.settings import Scoring
from cipherdag.federation.site import split_rows
from cipherdag.graphs.extension import topological_order
from cipherdag.graphs.metrics import compare
from cipherdag.sites.policy.policy import QUESTION_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

SITES = 10
MIXED_SITES, MIXED_ROWS = 5, 600
MIXED = {
    "mixed-20": (20, 3.0, False),
    "mixed-20 of degree 4": (20, 4.0, False),
    "mixed-20 with interactions": (20, 3.0, True),
    "mixed-50": (50, 3.0, False),
}
INDEPENDENT = {
    "80 independent numbers": (0,),
    "80 independent categories": (2, 2, 3, 4),
    "80 independent columns of both kinds": (0, 0, 2, 3, 4),
}
INDEPENDENT_ROWS, COLUMNS = 40, 80
ADDITIVE = {"additive-12": 3.0, "additive-12 of degree 4": 4.0}
ADDITIVE_ROWS, STRENGTH = 300, 0.75
CURVES = "curves-12"
WORLDS = ("alike", "own levels", "own slopes")
SIZES = {"1,000 rows": (1_000, SITES), "10,000 rows": (10_000, SITES)}
FEW_ROWS = {f"1,000 rows at {sites} sites": (1_000, sites) for sites in (3, 30)}
LARGE = ("hailfinder", "hepar2", "andes")
HALF, SPREADS = "half the tables", "own spreads"
DENSE, DENSE_EDGES = "linear-100 of degree 8", 400
CASES = (
    *(f"{name}, {world}" for name in MIXED for world in WORLDS),
    *(f"{name}, {WORLDS[0]}" for name in ("linear-300", DENSE)),
    *(
        f"{name}, {world}"
        for name in ("linear-50", "linear-100", "alarm", "insurance", "win95pts")
        for world in WORLDS[:2]
    ),
    *(f"{name}, {WORLDS[0]}" for name in LARGE),
    *(
        f"{name}, {size}"
        for name in ("linear-50", "linear-100", "alarm", "insurance", "win95pts", *LARGE[:2])
        for size in SIZES
    ),
    *(
        f"{name}, {size}"
        for name in ("alarm", "insurance", "win95pts", "hepar2")
        for size in FEW_ROWS
    ),
    *(f"{name}, {world}" for name in ADDITIVE for world in WORLDS[:2]),
    *(f"{CURVES}, {world}" for world in WORLDS[:2]),
    *(f"{name}, {HALF}" for name in ("alarm", "insurance", "win95pts")),
    *(f"{name}, {SPREADS}" for name in ("linear-50", "linear-100")),
    *(f"{name}, {world}" for name in INDEPENDENT for world in WORLDS[:2]),
)
METHODS = {
    "FedBOSS": FedBOSS(),
    "FedBOSS by sums, open": FedBOSS(reveal="sums"),
    "FedBOSS pooled, open": FedBOSS(within_sites=False),
    "FedBOSS, scores alone": FedBOSS(scoring=Scoring(max_parents=8)),
    "FedPC": FedPC(),
}
FIGURES = (
    ("shd_cpdag", "CPDAG SHD", 0),
    ("extra", "edges too many", 0),
    ("f1_skeleton", "skeleton F1", 3),
    (
        "wrong_effects",
        "adjustment identification distance: pairs whose adjustment would be wrong, of 1,000",
        0,
    ),
    ("cpu_seconds", "processor seconds", 1),
    ("rounds", "rounds", 0),
    ("mb", "MB of the site that sends most", 2),
    ("mb_all", "MB of all sites", 1),
)
FEWEST_SAMPLES = 3
EARLIER = "Rows with * are of revision 779d18cc or an earlier one, and of another processor."
OF_EDGES = ("shd_cpdag", "f1_skeleton", "wrong_effects")
"""Figures that say nothing, or the same as the number of edges, where the truth has none."""


def main() -> None:
    run_cases(
        parser(__doc__),
        "field",
        data=CASES,
        methods=(*METHODS, *PEERS),
        measure=measured,
        markdown=markdown,
    )


def measured(folder: Path, case: dict) -> dict:
    """One sample by one method."""
    tables, schema, truth = drawn(case["data"], folder, case["sample"])
    method = case["method"]
    if method in PEERS:
        rows = pd.concat(tables.values())
        discrete = case["data"].split(",")[0] in (*NETWORKS, *LARGE)
        coded = rows.apply(
            lambda own: own if own.dtype.kind == "f" else own.factorize(sort=True)[0]
        )
        _, cpu, arcs = timed(PEERS[method], coded, discrete=discrete)
        return distances(CausalGraph.from_arcs(rows.columns, arcs), truth) | {"cpu_seconds": cpu}
    policy = Policy(
        questions=QUESTION_KINDS,
        min_cell_size=0 if method.endswith("open") else Policy().min_cell_size,
        max_values=2**53,
        max_tests=2**53,
    )
    federation = Federation.simulate(tables, schema=schema, policy=policy, device="cpu")
    _, cpu, result = timed(federation.run, METHODS[method], seed=case["sample"])
    return distances(result.finding.graph, truth) | {
        "revision": revision(),
        "cpu_seconds": cpu,
        "rounds": len(result.rounds),
        "mb": bytes_per_site(result) / 1e6,
        "mb_all": sum(result.bytes_sent_per_site.values()) / 1e6,
    }


def distances(graph: CausalGraph, truth: CausalGraph) -> dict:
    """How far a class is from that of the truth, over the columns that vary."""
    if len(graph.nodes) < len(truth.nodes):
        places = [truth.nodes.index(name) for name in graph.nodes]
        truth = CausalGraph.from_arcs(graph.nodes, truth.arcs[np.ix_(places, places)])
    learnt = graph.to_cpdag() if graph.is_dag else graph
    found, pairs = compare(learnt, truth.to_cpdag()), len(truth.nodes) * (len(truth.nodes) - 1)
    common = found.correct + found.reverse
    return {
        "shd_cpdag": found.shd,
        "extra": found.extra,
        "f1_skeleton": 2.0 * common / max(2.0 * common + found.extra + found.miss, 1.0),
        "wrong_effects": 1000.0 * adjustment_distance(learnt, truth) / pairs,
    }


def drawn(data: str, folder: Path, sample: int):
    """The tables of the sites, their schema (None to infer it), and the true graph."""
    name, world = data.split(", ", 1)
    if name in MIXED or name in ADDITIVE:
        return modelled(name, world, sample)
    if name == CURVES:
        return curved(sample, own_levels=world != WORLDS[0])
    if name == DENSE:
        return dense(sample)
    if name in INDEPENDENT:
        return independent(INDEPENDENT[name], sample, own_levels=world != WORLDS[0])
    n_rows, n_sites = (SIZES | FEW_ROWS).get(world, (ROWS, SITES))
    rows, schema, truth = draw(name, folder, sample, n_rows)
    rng = np.random.default_rng((sample, n_sites))
    tables = named([rows.iloc[part] for part in split_rows(n_rows, n_sites, rng=rng)])
    if world == HALF:
        network = read_bif(folder / "bn" / f"{name}.bif.gz", numbered=True)
        half = rng.permutation(network.names)[::2]
        tables = {
            site: with_own_tables(network, half, rng).sample(len(part), rng)
            for site, part in tables.items()
        }
    elif world == SPREADS:
        tables = {
            site: part * rng.uniform(0.5, 2.0, part.shape[1]) for site, part in tables.items()
        }
    elif world == WORLDS[1]:
        tables = with_own_levels(name, folder, tables, rng)
    return tables, schema, truth


def modelled(name: str, world: str, sample: int):
    """Columns of a random model with levels or slopes of each site."""
    if name in MIXED:
        variables, degree, interactions = MIXED[name]
        rng = np.random.default_rng((sample, variables, int(degree), interactions))
        model = mixed_model(variables, degree, rng, interactions=interactions)
    else:
        rng = np.random.default_rng((sample, int(ADDITIVE[name]), ADDITIVE_ROWS))
        model = mixed_model(12, ADDITIVE[name], rng, kinds=(3,), strength=STRENGTH)
    n_rows = MIXED_ROWS if name in MIXED else ADDITIVE_ROWS
    differ = {"levels": world == "own levels", "slopes": world == "own slopes"}
    sites = [model.sample(n_rows, rng, **differ) for _ in range(MIXED_SITES)]
    names = list(map(name_of, range(len(model.dag))))
    return named(sites), None, CausalGraph.from_arcs(names, model.dag)


def curved(sample: int, *, own_levels: bool):
    """Numbers that are sums of tanh and sine of their causes, and of normal noise."""
    rng = np.random.default_rng((sample, 12, MIXED_ROWS))
    dag = random_dag(12, 18, rng)
    forms = rng.integers(0, 2, dag.shape)
    effects = rng.choice([-1.0, 1.0], dag.shape) * rng.uniform(0.6, 1.2, dag.shape)
    names = list(map(name_of, range(len(dag))))
    sites = []
    for _ in range(MIXED_SITES):
        values = rng.normal(size=(MIXED_ROWS, len(dag)))
        values += own_levels * rng.normal(size=len(dag))
        for v in topological_order(dag):
            for u in np.flatnonzero(dag[:, v]):
                curve = np.sin(2.0 * values[:, u]) if forms[u, v] else np.tanh(2.0 * values[:, u])
                values[:, v] += effects[u, v] * curve
        sites.append(pd.DataFrame(values, columns=names))
    return named(sites), None, CausalGraph.from_arcs(names, dag)


def dense(sample: int):
    """Numbers of a linear model whose variables have eight neighbours on average."""
    rng = np.random.default_rng((sample, DENSE_EDGES))
    dag = random_dag(100, DENSE_EDGES, rng)
    names = list(map(name_of, range(len(dag))))
    rows = pd.DataFrame(model_rows(dag, ROWS, rng, linear=True), columns=names)
    tables = named([rows.iloc[part] for part in split_rows(ROWS, SITES, rng=rng)])
    return tables, None, CausalGraph.from_arcs(names, dag)


def named(sites) -> dict[str, pd.DataFrame]:
    """Tables by the name of their site."""
    return {f"site{number}": table for number, table in enumerate(sites)}


def independent(kinds, sample: int, *, own_levels: bool):
    """Columns that have nothing to do with each other."""
    rng = np.random.default_rng((sample, *kinds))
    names = list(map(name_of, range(COLUMNS)))
    categories = [kinds[v % len(kinds)] for v in range(COLUMNS)]
    shares = [rng.dirichlet(np.full(max(own, 1), 2.0)) for own in categories]
    sites = []
    for _ in range(MIXED_SITES):
        columns = {}
        for column, own, common in zip(names, categories, shares, strict=True):
            share = rng.dirichlet(np.full(max(own, 1), 2.0)) if own_levels else common
            if own:
                columns[column] = rng.choice(list("abcd"[:own]), INDEPENDENT_ROWS, p=share)
            else:
                columns[column] = rng.normal(own_levels * rng.normal(), 1.0, INDEPENDENT_ROWS)
        sites.append(pd.DataFrame(columns))
    return named(sites), None, CausalGraph.from_arcs(names, np.zeros((COLUMNS,) * 2, dtype=bool))


def markdown(figures: dict) -> str:
    """One table per figure; cases of earlier revisions have rows of their own."""
    held, others = first_choice(figures["cases"])
    missed = f", not on {'; '.join(others)}" if others else ""
    count = f"{len(held)} of {len(held) + len(others)} worlds"
    said = f"In the median FedBOSS has at most one error more than FedPC in {count}{missed}."
    lines = [EARLIER, f"{said} These are worlds of later revisions with three samples or more.", ""]
    new = {case["data"] for case in figures["cases"] if "revision" in case}
    cases = [
        case if shown_as_new(case, new) else case | {"data": f"{case['data']} *"}
        for case in figures["cases"]
    ]
    ran = {case["data"] for case in cases}
    data = [row for case in CASES for row in (case, f"{case} *") if row in ran]
    with_edges = [row for row in data if row.split(",")[0] not in INDEPENDENT]
    for key, title, digits in FIGURES:
        shown = with_edges if key in OF_EDGES else data
        table = figure_table(cases, shown, (*METHODS, *PEERS), key, digits)
        lines += [f"**{title}**", "", *table, ""]
    return "\n".join(lines)


def first_choice(cases: Sequence[dict]) -> tuple[list[str], list[str]]:
    """Worlds in which FedBOSS has, in the median, at most one error more than FedPC; and others.

    Of cases of the newest revisions, with edges to find and three samples at least.
    """
    errors: dict[str, dict[str, list[int]]] = {}
    for case in cases:
        if "revision" in case and case["data"].split(",")[0] not in INDEPENDENT:
            of_data = errors.setdefault(case["data"], {})
            of_data.setdefault(case["method"], []).append(case["shd_cpdag"])
    held, others = [], []
    for name in CASES:
        ours, tests = (errors.get(name, {}).get(method, []) for method in ("FedBOSS", "FedPC"))
        if min(len(ours), len(tests)) >= FEWEST_SAMPLES:
            more = statistics.median(ours) > statistics.median(tests) + 1
            (others if more else held).append(name)
    return held, others


def shown_as_new(case: dict, new: set[str]) -> bool:
    """Whether a case stands in the row of the newest revision; peers do if there is one."""
    return "revision" in case or (case["method"] in PEERS and case["data"] in new)


if __name__ == "__main__":
    main()
