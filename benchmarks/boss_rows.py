"""How many rows over three sites FedBOSS of numbers needs to find one partial correlation.

    OMP_NUM_THREADS=1 python benchmarks/boss_rows.py --out benchmarks/results/boss_rows

Linear models of 1 or 2 causes a column. The edge looked for, in the middle, has this correlation
given its effect's other causes. FedBOSS's search runs on covariances within sites, computed in the
clear: no whole run, and none of the factors by which sites weight rows. Rows grow by fifths until
nine in ten draws join the two columns; four in five are read from a line through the shares' normal
quantiles, from .5 to .95, against the root of the rows.
"""

import math

import numpy as np
from markdown_table import table
from measuring import parser, write_report
from scipy.stats import norm

from cipherdag.algorithms.fedboss import moment_scores, moment_search, settings
from cipherdag.algorithms.fedboss.grow_shrink import GrowShrinkTrees, search_jointly
from cipherdag.statistics.set_scores import least_consistent_prior

CORRELATIONS, COLUMNS, SITES, DRAWS = (0.1, 0.2, 0.3, 0.5), (10, 30), 3, 200


def searched(rows: int, p: int, partial: float, seed: int) -> tuple[bool, int]:
    """Whether one draw joins the two columns, and how many others that no edge of the model has."""
    rng, weights, y = np.random.default_rng([seed, p, rows]), np.zeros((p, p)), p // 2
    for v in range(1, p):
        causes = rng.permutation(np.arange(max(0, v - 6), v))[: 1 + (rng.random() < 0.25)]
        weights[causes, v] = rng.uniform(0.1, 0.7, len(causes)) * rng.choice([-1, 1], len(causes))
    causes = rng.permutation(np.flatnonzero(weights[:, y]))
    spread = np.linalg.inv(np.eye(p) - weights)
    alone = 1 / np.linalg.inv((spread.T @ spread)[np.ix_(causes, causes)])[0, 0]
    weights[causes[0], y] = partial / math.sqrt((1 - partial**2) * alone)
    data = rng.normal(size=(rows, p)) @ np.linalg.inv(np.eye(p) - weights)
    for site in np.array_split(np.arange(rows), SITES):
        data[site] -= data[site].mean(axis=0)
    usual, prior = settings.Scoring(), least_consistent_prior(p, rows)
    most = max(rows // settings.ROWS_PER_PARENT, settings.PARENTS_OF_SETS)
    bounds = {"penalty": usual.penalty, "per_parent": prior, "max_parents": most}
    scores = moment_scores.MomentScores(np.corrcoef(data.T), rows - SITES, **bounds)
    trees = GrowShrinkTrees(scores, [0] * p, [0] * p)
    try:
        descent = moment_search.best_by_moments(trees, scores, usual.restarts, rng)
        next(search_jointly(trees, [descent]))
    except StopIteration as ended:
        dag = ended.value[0].dag
    joined = {frozenset((u, v)) for v in range(p) for u in range(p) if dag[v] >> u & 1}
    true = {frozenset(pair) for pair in np.argwhere(weights).tolist()}
    return frozenset((int(causes[0]), y)) in joined, len(joined - true)


def needed(p: int, partial: float, seed: int) -> dict[str, object]:
    """The rows at which four in five draws find the edge, and false edges of a graph there."""
    rows, curve = int(2.5 / partial**2.5), [[0, 0.0, 0.0]]
    while curve[-1][1] < 0.9:
        drawn = [searched(rows, p, partial, seed + k) for k in range(DRAWS)]
        curve.append([rows, *np.mean(drawn, axis=0).tolist()])
        print(p, partial, curve[-1], flush=True)
        rows = math.ceil(rows * 1.2)
    ns, found, extra = np.array([one for one in curve if 0.5 <= one[1] <= 0.95]).T
    enough = np.polyval(np.polyfit(norm.ppf(found), np.sqrt(ns), 1), norm.ppf(0.8)) ** 2
    false = float(np.interp(enough, ns, extra))
    return {"p": p, "partial": partial, "rows": float(enough), "false": false, "curve": curve[1:]}


def markdown(report: dict) -> str:
    """Rows to two digits, and in brackets false edges of such a graph."""
    shown = {p: [f"FedBOSS, {p} columns"] for p in COLUMNS}
    for one in report["cells"]:
        shown[one["p"]].append(f"{float(format(one['rows'], '.2g')):,.0f} ({one['false']:.1f})")
    heads = [f"{partial:g}".lstrip("0") for partial in CORRELATIONS]
    return "\n".join(table(["partial correlation", *heads], shown.values())) + "\n"


if __name__ == "__main__":
    given = parser(__doc__, seed=63_000).parse_args()
    cells = [needed(p, partial, given.seed) for p in COLUMNS for partial in CORRELATIONS]
    write_report(given.out, "boss_rows", {"seed": given.seed, "cells": cells}, markdown)
