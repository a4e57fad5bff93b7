"""How often intervals of an effect from a learnt graph hold the truth: one graph, halves, a union.

    python benchmarks/graph_effect_coverage.py [--graphs 20] [--replicates 15]

Linear DAGs of 10 variables, 900 rows at three sites, FedPC with replicates over rows drawn anew.
Effects of all ordered pairs by least squares of all rows, given each adjustment set, as `Effect`
has them with sums of sites that do not differ. Effects that are not zero are counted apart.
"""

from __future__ import annotations

import argparse
import logging
from collections import defaultdict
from itertools import permutations

import numpy as np
import pandas as pd

from cipherdag import Federation, FedPC
from cipherdag.algorithms.effect.sets import joined_sets, read_sets, written_sets
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.identification.answers import Identified

P, ROWS, SITES = 10, 900, 3
LEAST = 1e-9


def world(rng: np.random.Generator) -> tuple[np.ndarray, pd.DataFrame]:
    """Total effects, (p, p), of a random linear DAG with two parents a variable, and its rows."""
    order = rng.permutation(P)
    weights = np.zeros((P, P))
    for k, v in enumerate(order):
        for parent in rng.permutation(order[:k])[: int(rng.integers(0, 4))]:
            weights[parent, v] = rng.uniform(0.3, 0.9) * rng.choice([-1.0, 1.0])
    total = np.linalg.inv(np.eye(P) - weights)
    rows = rng.normal(size=(ROWS, P)) @ total
    names = [f"v{k}" for k in range(P)]
    return total - np.eye(P), pd.DataFrame(rows, columns=names)


def interval(rows: pd.DataFrame, x: str, y: str, given: tuple[str, ...]) -> tuple[float, float]:
    """The 95 % interval of the coefficient of x in a linear model of y."""
    design = np.column_stack([np.ones(len(rows)), rows[[x, *given]]])
    inverse = np.linalg.inv(design.T @ design)
    slopes = inverse @ design.T @ rows[y].to_numpy()
    residuals = rows[y].to_numpy() - design @ slopes
    error = np.sqrt(residuals @ residuals / (len(rows) - design.shape[1]) * inverse[1, 1])
    return slopes[1] - 1.96 * error, slopes[1] + 1.96 * error


Span = tuple[float, float]


def hull(rows: pd.DataFrame, adjust: str, x: str, y: str, *, points: bool = False) -> Span:
    """The hull of the intervals, or of the estimates, over all sets of a text; 0 of no effect."""
    ends = []
    for one in read_sets(adjust):
        low, high = (0.0, 0.0) if one.why else interval(rows, x, y, one.adjust)
        ends.append(((low + high) / 2,) * 2 if points else (low, high))
    return min(low for low, _ in ends), max(high for _, high in ends)


def alone(graph: CausalGraph, x: str, y: str) -> str:
    """The sets of one graph; a graph without an effect says 0."""
    answer = graph.identify(x, y)
    if isinstance(answer, Identified) and answer.method == "no effect":
        return '[{"why": "no effect"}]'
    return written_sets(answer)


def main() -> None:
    """Print shares of intervals that hold the truth, and their median widths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=20)
    parser.add_argument("--replicates", type=int, default=15)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    held: dict[tuple[str, bool], list[tuple[bool, float]]] = defaultdict(list)
    for number in range(options.graphs):
        rng = np.random.default_rng((number, 61))
        effects, rows = world(rng)
        search = FedPC(bootstrap=options.replicates)
        learnt = Federation.split(rows, SITES, seed=number).run(search, seed=number).finding
        half = Federation.split(rows[::2], SITES, seed=number).run(FedPC(), seed=number).graph
        for (i, x), (j, y) in permutations(enumerate(rows.columns), 2):
            all_graphs = [learnt.graph, *learnt.replicates]
            one, other = alone(learnt.graph, x, y), alone(half, x, y)
            ways = {
                "estimates of one graph": hull(rows, one, x, y, points=True),
                "intervals of one graph": hull(rows, one, x, y),
                "intervals, from halves": hull(rows[1::2], other, x, y),
                "intervals of all graphs": hull(rows, joined_sets(all_graphs, x, y), x, y),
            }
            for way, (low, high) in ways.items():
                there = low - LEAST <= effects[i, j] <= high + LEAST
                held[way, abs(effects[i, j]) > LEAST].append((there, high - low))
    for (way, real), found in held.items():
        share, width = np.mean([there for there, _ in found]), np.median([w for _, w in found])
        kind = "not zero" if real else "zero"
        print(f"{way:26} {kind:9} {len(found):5} pairs {share:.3f} hold, width {width:.2f}")


if __name__ == "__main__":
    main()
