"""How often an edge or arrow is right, by the share of bootstrap replicates that have it.

    python benchmarks/bootstrap_calibration.py [--graphs 12] [--replicates 20]

Random DAGs of 10 variables, 900 rows at three sites: linear, and of three categories with tables
drawn from Dirichlet distributions. An edge is right where the true DAG joins the two, an arrow
where it points that way there.
"""

from __future__ import annotations

import argparse
import logging
from collections import defaultdict

import numpy as np
import pandas as pd
from graph_effect_coverage import ROWS, SITES, P, world

from cipherdag import FedBOSS, Federation, FedPC

BINS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)


def linear(rng: np.random.Generator) -> tuple[np.ndarray, pd.DataFrame]:
    """Arcs, (p, p), of a linear DAG, and its rows."""
    total, rows = world(rng)
    weights = np.eye(P) - np.linalg.inv(total + np.eye(P))
    return abs(weights) > 1e-9, rows


def categories(rng: np.random.Generator) -> tuple[np.ndarray, pd.DataFrame]:
    """Arcs, (p, p), of a DAG of three categories a variable, and its rows."""
    order, arcs = rng.permutation(P), np.zeros((P, P), dtype=bool)
    codes = np.zeros((ROWS, P), dtype=np.int64)
    for k, v in enumerate(order):
        parents = rng.permutation(order[:k])[: int(rng.integers(0, 3))]
        arcs[parents, v] = True
        cell = codes[:, parents] @ 3 ** np.arange(len(parents))
        tables = rng.dirichlet(np.full(3, 0.7), size=3 ** len(parents))
        codes[:, v] = (rng.random(ROWS)[:, None] > tables[cell].cumsum(axis=1)[:, :2]).sum(axis=1)
    return arcs, pd.DataFrame(codes.astype(str), columns=[f"v{k}" for k in range(P)])


def main() -> None:
    """Print, by world, algorithm and bin of shares, how many are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=12)
    parser.add_argument("--replicates", type=int, default=20)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    for draw in (linear, categories):
        for algorithm in (FedPC, FedBOSS):
            right: dict[tuple[str, int], list[bool]] = defaultdict(list)
            for number in range(options.graphs):
                arcs, rows = draw(np.random.default_rng((number, 10)))
                if rows.nunique().min() < 2:
                    continue
                federation = Federation.split(rows, SITES, seed=number)
                run = federation.run(algorithm(bootstrap=options.replicates), seed=number)
                shares = run.finding.confidences
                for i, j in zip(*np.triu_indices(P, k=1), strict=True):
                    own = shares.of(f"v{i}", f"v{j}")
                    for what, share, true in (
                        ("edge", own.any_edge, arcs[i, j] or arcs[j, i]),
                        ("arrow", own.as_drawn("-->") / own.replicates, arcs[i, j]),
                        ("arrow", own.as_drawn("<--") / own.replicates, arcs[j, i]),
                    ):
                        if share > 0.0:
                            at = min(int(np.searchsorted(BINS, share, side="right")), 5) - 1
                            right[what, at].append(bool(true))
            for what in ("edge", "arrow"):
                found = (right.get((what, k), []) for k in range(len(BINS) - 1))
                cells = [f"{np.mean(own):.2f} of {len(own)}" if own else "-" for own in found]
                print(f"{draw.__name__:10} {algorithm.title:8} {what:5}", *cells, sep=" | ")


if __name__ == "__main__":
    main()
