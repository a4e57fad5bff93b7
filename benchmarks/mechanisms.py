"""FedFCI with the site as a variable: mechanisms named rightly and wrongly, and marks gained.

    python benchmarks/mechanisms.py --out benchmarks/results/mechanisms
    python benchmarks/mechanisms.py --draws 5

Linear models of eight numbers, two of them hidden, at five sites; so many of the observed ones have
a constant of every site's own, which spreads by 0.5 standard deviations of their noise. Truth: what
no set of the observed variables separates from the site. Beside it, the variables that are named
for being distributed differently given nothing.
"""

from __future__ import annotations

from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from markdown_table import table
from measuring import parser, write_report

from cipherdag import PAG, CausalGraph, Federation, FedFCI
from cipherdag.graphs.ancestral.metrics import compare_pags
from cipherdag.graphs.dags import mask_of
from cipherdag.graphs.identification.separation import connected

if TYPE_CHECKING:
    import argparse

OBSERVED, HIDDEN, SITES, SPREAD = 8, 2, 5, 0.5
ROWS = (200, 1000)
CHANGED = (0, 2)
DRAWS = 25


def main() -> None:
    """Every number of rows and of mechanisms that differ."""
    options = parser(__doc__, seed=0)
    options.add_argument("--draws", type=int, default=DRAWS)
    arguments = options.parse_args()
    cases = [measure(arguments, rows, changed) for changed in CHANGED for rows in ROWS]
    write_report(arguments.out, Path(__file__).stem, {"cases": cases}, markdown)
    print(markdown({"cases": cases}))


def measure(arguments: argparse.Namespace, rows: int, changed: int) -> dict:
    """Sums over draws of one case."""
    found = {"rows": rows, "changed": changed, "draws": arguments.draws}
    for number in range(arguments.draws):
        rng = np.random.default_rng((arguments.seed, rows, changed, number))
        for name, value in one_draw(rng, rows, changed).items():
            found[name] = found.get(name, 0) + value
    return found


def one_draw(rng: np.random.Generator, rows: int, changed: int) -> dict:
    """Arrows right, wrong and missed, and marks with and without the site."""
    p = OBSERVED + HIDDEN
    dag = np.zeros((p + 1, p + 1), dtype=bool)
    order = rng.permutation(p)
    dag[np.ix_(order, order)] = np.triu(rng.random((p, p)) < 2.5 / (p - 1), k=1)
    dag[p, rng.permutation(OBSERVED)[:changed]] = True
    names = [f"v{v}" for v in range(OBSERVED)]
    true = {names[v] for v in joined(dag)}
    federation = Federation.simulate(draw(dag, order, names, rows, rng))
    truth = PAG.from_dag(
        CausalGraph.from_arcs([*names, *(f"h{v}" for v in range(HIDDEN))], dag[:-1, :-1]),
        {f"h{v}" for v in range(HIDDEN)},
    )
    plain, site = federation.run(FedFCI()), federation.run(FedFCI(context="site"))
    arrows = {own["variable"] for own in site.details["mechanisms"] if own["differs"]}
    named = {own["variable"] for own in plain.details["site_differences"] if own["differs"]}
    marks = {"without": compare_pags(plain.graph, truth), "with": compare_pags(site.graph, truth)}
    return {
        "true": len(true),
        "alike": OBSERVED - len(true),
        "right": len(arrows & true),
        "wrong": len(arrows - true),
        "named_right": len(named & true),
        "named_wrong": len(named - true),
        **{f"decided_{own}": found.right + found.unfounded for own, found in marks.items()},
        **{f"contrary_{own}": found.contrary for own, found in marks.items()},
    }


def joined(dag) -> list[int]:
    """The observed variables that no set of the others separates from the site, the last one."""
    parents = tuple(mask_of(np.flatnonzero(column).tolist()) for column in dag.T)
    site = len(dag) - 1
    found = []
    for v in range(OBSERVED):
        others = [u for u in range(OBSERVED) if u != v]
        sets = chain.from_iterable(combinations(others, size) for size in range(OBSERVED))
        if all(connected(parents, v, mask_of(own)) >> site & 1 for own in sets):
            found.append(v)
    return found


def draw(dag, order, names: list[str], rows: int, rng: np.random.Generator) -> dict:
    """The observed columns of every site."""
    weights = np.where(dag[:-1, :-1], rng.uniform(0.4, 1.0, (len(order),) * 2), 0.0)
    weights *= rng.choice([-1.0, 1.0], weights.shape)
    frames = {}
    for k in range(SITES):
        values = rng.standard_normal((rows, len(order)))
        values[:, dag[-1, :-1]] += SPREAD * rng.standard_normal(int(dag[-1].sum()))
        for v in order:
            values[:, v] += values @ weights[:, v]
        frames[f"site{k}"] = pd.DataFrame(values[:, :OBSERVED], columns=names)
    return frames


def markdown(figures: dict) -> str:
    """One table; shares of what there is."""
    lines = [
        [
            str(own["changed"]),
            str(own["rows"]),
            f"{own['right']} of {own['true']}",
            f"{own['wrong']} of {own['alike']}",
            f"{own['named_right']} and {own['named_wrong']}",
            f"{own['decided_without']}, {own['contrary_without']}",
            f"{own['decided_with']}, {own['contrary_with']}",
        ]
        for own in figures["cases"]
    ]
    columns = [
        "mechanisms that differ",
        "rows a site",
        "arrows of the site found",
        "wrong ones",
        "named given nothing, right and wrong",
        "ends decided, contrary ones, without the site",
        "with it",
    ]
    return "\n".join([*table(columns, lines), ""])


if __name__ == "__main__":
    main()
