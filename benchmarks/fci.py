"""FedFCI with hidden variables: edges and marks right and wrong, beside causal-learn's FCI.

    python benchmarks/fci.py DATA_FOLDER --data alarm insurance linear-50 --lines fci.jsonl
    python benchmarks/fci.py --report --lines fci.jsonl

DATA_FOLDER holds ``bn/<network>.bif.gz``. Every sample of 5000 rows is drawn anew (seed = its
number), loses the columns of a tenth of the variables, drawn among those with two effects or more,
and is split unevenly over ten sites. causal-learn has all rows in one table, the same alpha (0.01),
largest set (3) and test (G2, Fisher's z); a case that takes more than --limit processor seconds is
given up. The truth is the PAG of the network without those columns. Finished cases are read from
--lines and not run again. --out writes JSON and Markdown, --report prints the Markdown.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
from fedpc_data import draw
from measuring import figure_table, parser, run_cases, timed

from cipherdag import PAG, Federation, FedFCI, Policy, Schema
from cipherdag.graphs.metrics import compare_pags
from cipherdag.sites.policy.policy import QUESTION_KINDS

if TYPE_CHECKING:
    from pathlib import Path

DATA = ("alarm", "insurance", "linear-50")
ALPHA, LARGEST, SHARE, SITES = 0.01, 3, 0.1, 10
METHODS = {
    "FedFCI": FedFCI(),
    "FedFCI pooled": FedFCI(evidence="pooled"),
    "FedFCI pooled conservative": FedFCI(evidence="pooled", colliders="conservative"),
    "FedFCI pooled majority": FedFCI(evidence="pooled", colliders="majority"),
    "FedFCI pooled sepset": FedFCI(evidence="pooled", colliders="sepset"),
    "FedFCI rfci": FedFCI(search="rfci"),
    "FedFCI rfci pooled": FedFCI(search="rfci", evidence="pooled"),
    "causal-learn": None,
}
FIGURES = (
    ("f1", "F1 of the edges", 3),
    ("share_right", "share of the ends of common edges that are right", 3),
    ("common", "edges that the truth has, too", 0),
    ("right", "ends right", 0),
    ("contrary", "ends contrary (an arrowhead for a tail, or the other way round)", 0),
    ("unfounded", "ends decided that the truth leaves open", 0),
    ("open", "ends left open that the truth decides", 0),
    ("cpu_seconds", "processor seconds, of all sites and the coordinator", 1),
)


def main() -> None:
    run_cases(
        parser(__doc__),
        "fci",
        data=DATA,
        methods=METHODS,
        measure=measure,
        markdown=markdown,
    )


def measure(folder: Path, case: dict) -> dict:
    """One sample by one method."""
    name, number, method = case["data"], case["sample"], case["method"]
    data, schema, dag = draw(name, folder, number)
    hidden = hidden_of(dag, number)
    truth = PAG.from_dag(dag, hidden)
    data = data[[own for own in data.columns if own not in hidden]]
    if schema is not None:
        schema = Schema(tuple(own for own in schema.variables if own.name not in hidden))
    if method == "causal-learn":
        wall, cpu, found = timed(causal_learn, data, discrete=schema is not None)
        more = {}
    else:
        # as causal-learn has them, pooled tables open counts of few rows, too
        least = 0 if "pooled" in method else Policy().min_cell_size
        policy = Policy(
            questions=QUESTION_KINDS, min_cell_size=least, max_values=2**53, max_tests=2**53
        )
        federation = Federation.split(
            data, SITES, seed=number, schema=schema, policy=policy, device="cpu"
        )
        wall, cpu, result = timed(federation.run, METHODS[method], seed=number)
        found = result.finding.graph
        more = {
            "rounds": len(result.rounds),
            "tests": sum(result.finding.details["tests"].values()),
        }
    measured = asdict(compare_pags(found, truth))
    return measured | {"seconds": wall, "cpu_seconds": cpu, "hidden": sorted(hidden)} | more


def hidden_of(dag, number: int) -> set[str]:
    """A tenth of the variables, of those with two effects or more."""
    able = np.flatnonzero(dag.arcs.sum(axis=1) > 1)
    chosen = np.random.default_rng(number).choice(
        able, round(SHARE * len(dag.nodes)), replace=False
    )
    return {dag.nodes[v] for v in chosen}


def causal_learn(data, *, discrete: bool) -> PAG:
    """The PAG of causal-learn's FCI on all rows; see the module."""
    from causallearn.search.ConstraintBased.FCI import fci

    if discrete:
        values = np.column_stack([np.unique(data[own], return_inverse=True)[1] for own in data])
    else:
        values = data.to_numpy()
    test = "gsq" if discrete else "fisherz"
    graph, _ = fci(values, test, alpha=ALPHA, depth=LARGEST, show_progress=False)
    # it has 1 for an arrowhead, -1 for a tail and 2 for a circle at [j, i], the end at j
    signs = np.asarray(graph.graph).T
    return PAG(tuple(data.columns), np.select([signs == 2, signs == 1, signs == -1], [1, 2, 3], 0))


def markdown(figures: dict) -> str:
    """One table per figure."""
    cases = figures["cases"]
    names = [name for name in DATA if any(case["data"] == name for case in cases)]
    lines = []
    for field, title, digits in FIGURES:
        lines += [f"**{title}**", "", *figure_table(cases, names, METHODS, field, digits), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
