"""FedBOSS's tables: data sets x ways of scoring x samples, beside PC and peers on the same rows.

    python benchmarks/boss_tables.py DATA_FOLDER --data alarm insurance --lines boss.jsonl
    python benchmarks/boss_tables.py --report --lines boss.jsonl

DATA_FOLDER holds ``bn/<network>.bif.gz``. Every sample of 5000 rows is drawn anew (seed = its
number) and split unevenly over ten sites, which allow every count; answers are masked. `sites`
opens no table at all; `score_peers` has all rows at one place. Beside the distance
to the true class stands how much the graph that was found scores above the true one, in nats: where
that is negative the search missed it, and where it is not the score prefers another graph. Defaults
were chosen on the data of `CHOSEN_ON`, seeds from 100 on, and on random linear models; the others
never chose anything. Finished cases are read from --lines and not run again, those of --limit
processor seconds given up. --out writes JSON and Markdown, --report prints the Markdown.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from fedpc_data import draw
from markdown_table import table
from measuring import bytes_per_site, figure_table, parser, run_cases, timed
from score_peers import PEERS

from cipherdag import CausalGraph, FedBOSS, Federation, FedPC, Policy
from cipherdag.graphs.dags import members
from cipherdag.graphs.extension import acyclic_extension
from cipherdag.graphs.metrics import compare
from cipherdag.sites.policy.policy import QUESTION_KINDS
from cipherdag.statistics.set_scores import SetScore, grid_bits, least_consistent_prior

if TYPE_CHECKING:
    from pathlib import Path

SITES, WARM, SAMPLES = 10, 300, 5
COSTLY = ("alarm", "linear-100")
"""Data whose costs stand in the table of all in short."""
CHOSEN_ON = ("child", "hailfinder", "hepar2", "barley", "mildew")
REPORTED = ("alarm", "insurance", "win95pts", "andes", "linear-50", "linear-100", "linear-300")
METHODS = {
    "bits": FedBOSS(),
    "pooled": FedBOSS(within_sites=False),
    "sites": FedBOSS(reveal="sums"),
    "PC stratified": FedPC(),
    "PC pooled": FedPC(evidence="pooled"),
}
TABLES = "tables, of numbers covariances, of all rows"
SUMMED = "log likelihoods of sets, summed"
OPENS = {
    "pooled": TABLES,
    "sites": SUMMED,
    "pooled bdeu": TABLES,
    "pooled bic": TABLES,
    "pooled ges": TABLES,
    "PC stratified": "one bit a test",
    "PC pooled": TABLES,
} | dict.fromkeys(PEERS, "every row, at one place")
COSTS = (
    ("cpu_seconds", "processor seconds", 1),
    ("rounds", "rounds", 0),
    ("mb", "MB a site", 2),
)
FIGURES = (
    ("shd_cpdag", "CPDAG SHD", 0),
    ("f1", "F1", 3),
    ("above", "score above the truth", 1),
    ("seconds", "seconds", 1),
    *COSTS,
)


def main() -> None:
    run_cases(
        parser(__doc__),
        "boss_tables",
        data=(*REPORTED, *CHOSEN_ON),
        methods=(*METHODS, *PEERS),
        measure=measure,
        markdown=markdown,
    )


def measure(folder: Path, case: dict) -> dict:
    """One sample by one method."""
    name, seed, method = case["data"], case["sample"], case["method"]
    data, schema, truth = draw(name, folder, seed)
    if method in PEERS:
        wall, cpu, arcs = timed(PEERS[method], data, discrete=schema is not None)
        found = measured(
            CausalGraph.from_arcs(data.columns, arcs),
            CausalGraph.from_arcs(data.columns, acyclic_extension(arcs)),
            truth,
        )
        return found | {"cpu_seconds": cpu, "seconds": wall}
    return of_sites(case, data, schema, truth)


def measured(graph: CausalGraph, dag: CausalGraph, truth: CausalGraph) -> dict:
    """Distances of a class and of one of its graphs."""
    own = compare(dag, truth)
    classes = graph.to_cpdag() if graph.is_dag else graph
    return {
        "shd_cpdag": compare(classes, truth.to_cpdag()).shd,
        "shd": own.shd,
        "f1": own.f1,
    }


def of_sites(case: dict, data, schema, truth) -> dict:
    """One of ours over the sites."""
    seed, method = case["sample"], case["method"]
    federation = federated(data, schema, case)
    # what is loaded once is no part of a run
    federated(data[:WARM], schema, case).run(METHODS[method], seed=seed)
    wall, cpu, result = timed(federation.run, METHODS[method], seed=seed)
    found = measured(result.finding.graph, result.finding.dag, truth) | {
        "cpu_seconds": cpu,
        "rounds": len(result.rounds),
        "protection": result.protection,
        "seconds": wall,
        "mb": bytes_per_site(result) / 1e6,
    }
    if "sets" in result.finding.details:
        found["sets"] = dict(result.finding.details["sets"])
        found["cut_short"] = result.finding.details["cut_short"]
    if method.startswith("pooled"):
        tables = [site.table for site in federation.sites]
        found["above"] = result.finding.details["score"] - score_of(METHODS[method], tables, truth)
    return found


def federated(data, schema, case: dict) -> Federation:
    """The rows over ten sites."""
    policy = Policy(
        questions=QUESTION_KINDS,
        min_cell_size=0,
        max_values=2**53,
        max_tests=2**53,
    )
    return Federation.split(
        data,
        SITES,
        seed=case["sample"],
        schema=schema,
        policy=policy,
        device="cpu",
        protection="masking",
    )


def score_of(algorithm: FedBOSS, tables, truth) -> float:
    """What the algorithm's score says of the true graph on all rows at one place."""
    import numpy as np

    from cipherdag.algorithms.fedboss.moment_scores import BITS, MomentScores

    names = list(tables[0].names)
    dag = [0] * len(names)
    for cause, effect in truth.directed:
        dag[names.index(effect)] |= 1 << names.index(cause)
    if tables[0].codes is None:
        rows = np.concatenate([own.values for own in tables])
        scores = MomentScores(
            np.corrcoef(rows, rowvar=False),
            len(rows),
            penalty=algorithm.scoring.penalty,
            per_parent=least_consistent_prior(len(names), len(rows)),
            max_parents=1,
        )
        return sum(scores.score(v, own) for v, own in enumerate(dag)) / 2.0**BITS
    return score_of_categories(np.concatenate([own.codes for own in tables]), dag)


def score_of_categories(codes, dag) -> float:
    """The same of categories, from the distinct rows of every family."""
    import numpy as np

    levels = np.array([len(np.unique(column)) for column in codes.T])
    rows = len(codes)
    score = SetScore(rows=rows, bits=grid_bits(rows))
    prior = int(score.on_grid(np.array([np.log(len(levels))]))[0])

    def of_set(positions):
        counts = np.unique(codes[:, positions], axis=0, return_counts=True)[1]
        cells = np.array([float(levels[positions].astype(float).prod())])
        return int(score.of_tables(counts, np.array([len(counts)]), cells)[0])

    total = 0
    for v, parents in enumerate(dag):
        own = list(members(parents))
        nothing = score.of_tables(np.array([len(codes)]), np.array([1]), np.ones(1))[0]
        total += of_set([*own, v]) - (of_set(own) if own else int(nothing)) - prior * len(own)
    return total / 2.0**score.bits


def markdown(figures: dict) -> str:
    """All in short, and one table per figure."""
    cases = figures["cases"]
    lines = ["**In short: median CPDAG SHD, costs, and what is opened**", "", *in_short(cases), ""]
    for group, names in (("Data that chose nothing", REPORTED), ("Data that chose", CHOSEN_ON)):
        own = [case for case in cases if case["data"] in names]
        present = [name for name in names if any(case["data"] == name for case in own)]
        for field, title, digits in FIGURES if present else ():
            methods = (*METHODS, *PEERS)
            lines += [f"**{group}: {title}**", ""]
            lines += [*figure_table(own, present, methods, field, digits), ""]
    return "\n".join(lines)


def in_short(cases: list[dict]) -> list[str]:
    """Methods down: distances on data that chose nothing, costs, and what is opened."""
    given = {case["data"] for case in cases}
    names = [name for name in REPORTED if name in given]
    costs = [(name, *cost) for name in COSTLY for cost in COSTS]
    rows = [
        [
            method,
            *(median_of(cases, name, method, "shd_cpdag", 0) for name in names),
            *(median_of(cases, name, method, field, digits) for name, field, _, digits in costs),
            opened,
        ]
        for method, opened in OPENS.items()
    ]
    titles = [f"{name}: {title}" for name, _, title, _ in costs]
    return table(["", *names, *titles, "opened"], [row for row in rows if any(row[1:-1])])


def median_of(cases: list[dict], name: str, method: str, field: str, digits: int) -> str:
    """The median, and of how many samples where it is not five."""
    own = [c for c in cases if (c["data"], c["method"]) == (name, method)]
    values = [case[field] for case in own if field in case]
    if not values:
        return "given up" if own and field == "shd_cpdag" else ""
    of = "" if len(values) == SAMPLES or field != "shd_cpdag" else f" ({len(values)})"
    return f"{statistics.median(values):.{digits}f}{of}"


if __name__ == "__main__":
    main()
