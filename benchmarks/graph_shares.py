"""How often shares of graphs are right, and intervals of effects given that there is one.

    python benchmarks/graph_shares.py [--models 40] [--out benchmarks/results/graph_shares.json]

Linear models at five sites of 200 rows each, 12 variables, each site with levels of its own.
FedBOSS draws graphs from the covariances within sites, which are computed in the clear. Effects are
of least squares on these, given the direct causes of `sampled_sets`. Worlds: random graphs; graphs
like alarm, with 1.25 edges a variable; the same with slopes, spreads and heavy tails that differ
between sites; the same with half of the columns cut to 0 and 1, where effects are not counted; and
a variable with six direct causes.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
from markdown_table import table
from measuring import parser, write_report

from cipherdag.algorithms.effect.sets import read_sets, sampled_sets
from cipherdag.algorithms.fedboss.graph_draws import draw_graphs
from cipherdag.errors import ParameterError
from cipherdag.findings.averaging import averaged, with_scatter
from cipherdag.findings.effect import BetweenSites, Contrast
from cipherdag.graphs.graph_sample import GraphSample
from cipherdag.graphs.knowledge import Constraints

WORLDS = ("random", "like alarm", "sites that differ", "half binary", "six causes")
P, SITES, ROWS = 12, 5, 200
NAMES = tuple(f"v{k}" for k in range(P))
BINS = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.01)
SURE = 0.95
VARIABLES = (20, 50)


def model(world: str, rng: np.random.Generator) -> np.ndarray:
    """Weights of edges from the first to the second variable, (P, P), after a random order."""
    order, weights = rng.permutation(P), np.zeros((P, P))
    for k, v in enumerate(order):
        if world == "random":
            parents = order[:k][rng.random(k) < 2.5 / (P - 1)]
        elif world == "six causes" and k == P - 1:
            parents = order[:6]
        else:
            near = order[max(0, k - 6) : k]
            count = rng.choice(5, p=(0.22, 0.42, 0.24, 0.09, 0.03))
            parents = rng.permutation(near)[:count]
        weights[parents, v] = rng.uniform(0.1, 0.7, len(parents)) * rng.choice(
            [-1, 1], len(parents)
        )
    return weights


def covariances(world: str, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sums of products around each site's means, (SITES, P, P)."""
    sums, binary = np.zeros((SITES, P, P)), rng.random(P) < 0.5
    for k in range(SITES):
        slopes, spread, noise = weights, np.ones(P), rng.normal(size=(ROWS, P))
        if world == "sites that differ":
            slopes = weights + (weights != 0) * rng.normal(0, 0.1, weights.shape)
            spread, noise = np.exp(rng.normal(0, 0.25, P)), rng.standard_t(4, (ROWS, P)) / 2**0.5
        rows = (noise * spread + rng.normal(size=P)) @ np.linalg.inv(np.eye(P) - slopes)
        if world == "half binary":
            rows = np.where(binary, rows > np.median(rows, axis=0), rows)
        rows = rows - rows.mean(axis=0)
        sums[k] = rows.T @ rows
    return sums


def fitted(
    sums: np.ndarray, rows: int, x: int, y: int, given: tuple[int, ...]
) -> tuple[float, float]:
    """The coefficient of x in a linear model of y, by least squares, and its error."""
    columns = [x, *given]
    inverse = np.linalg.inv(sums[np.ix_(columns, columns)])
    slopes = inverse @ sums[columns, y]
    left = (sums[y, y] - slopes @ sums[columns, y]) / (rows - len(columns))
    return float(slopes[0]), float(np.sqrt(left * inverse[0, 0]))


def slope(sums: np.ndarray, x: int, y: int, given: tuple[int, ...]) -> Contrast:
    """The coefficient over all sites, with the larger of the model's and the sites' error."""
    b, error = fitted(sums.sum(axis=0), SITES * (ROWS - 1), x, y, given)
    slopes, errors = np.array([fitted(one, ROWS - 1, x, y, given) for one in sums]).T
    weights = errors**-2.0
    mean = float(weights @ slopes / weights.sum())
    q = float(weights @ (slopes - mean) ** 2)
    between = BetweenSites(arm=None, sites=SITES, estimate=mean, error=weights.sum() ** -0.5, q=q)
    low, high = b - 1.96 * error, b + 1.96 * error
    alone = Contrast(arm=None, scale="difference", estimate=b, error=error, low=low, high=high)
    return with_scatter(alone, between)


def interval(sample: GraphSample, sums: np.ndarray, x: int, y: int) -> Contrast | None:
    """The interval given that x causes y; None where hardly any graph says so."""
    try:
        sets = read_sets(sampled_sets(sample, NAMES[x], NAMES[y]))
    except ParameterError:
        return None
    estimated = [one for one in sets if not one.why]
    given = [tuple(map(NAMES.index, one.adjust)) for one in estimated]
    return averaged([one.share for one in estimated], [slope(sums, x, y, one) for one in given])


def measured(world: str, seed: int) -> dict[str, list]:
    """Shares with what is true, of edges and of causes, and whether intervals hold the effect."""
    rng = np.random.default_rng([WORLDS.index(world), seed])
    weights = model(world, rng)
    sums = covariances(world, weights, rng)
    pooled = sums.sum(axis=0)
    spread = np.sqrt(np.diagonal(pooled))
    arcs = draw_graphs(
        pooled / np.outer(spread, spread), SITES * (ROWS - 1), Constraints.none(P), rng
    )
    sample = GraphSample(NAMES, arcs)
    true, total = weights != 0, np.linalg.inv(np.eye(P) - weights)
    paths = GraphSample(NAMES, true[None]).causes > 0
    joined, upper, apart = (
        sample.arrows + sample.arrows.T,
        np.triu_indices(P, 1),
        ~np.eye(P, dtype=bool),
    )
    found: dict[str, list] = {
        "edges": [*zip(joined[upper].tolist(), (true | true.T)[upper].tolist(), strict=True)],
        "arrows": [*zip(sample.arrows[apart].tolist(), true[apart].tolist(), strict=True)],
        "causes": [*zip(sample.causes[apart].tolist(), paths[apart].tolist(), strict=True)],
        "effects": [],
    }
    if world != "half binary":
        for x, y in np.argwhere(paths).tolist():
            if (one := interval(sample, sums, x, y)) is not None:
                holds = one.low <= total[x, y] <= one.high
                found["effects"].append((bool(holds), one.high - one.low))
    return found


def cost(p: int, seed: int, hub: bool) -> tuple[float, float]:
    """Processor seconds of all draws over p variables, and MB of memory beyond what was taken.

    Of 1,000 rows with about 1.25 causes a variable; with a hub twelve cause the last one, so that
    tables have the most candidates. It needs a process of its own.
    """
    rng = np.random.default_rng([p, seed])
    weights = np.triu(rng.random((p, p)) < 2.5 / (p - 1), 1) * rng.uniform(0.1, 0.7, (p, p))
    if hub:
        weights[:12, -1] = 0.5
    rows = rng.normal(size=(SITES * ROWS, p)) @ np.linalg.inv(np.eye(p) - weights)
    correlations = np.corrcoef(rows.T)
    before, began = most_memory(), time.process_time()
    draw_graphs(correlations, len(rows) - SITES, Constraints.none(p), rng)
    return time.process_time() - began, most_memory() - before


def most_memory() -> float:
    """The most memory that this process has had, in MB; Linux alone says it."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def costs(seed: int) -> list[dict[str, object]]:
    """What the draws cost, each in a new process, three times."""
    found = []
    for p, hub in ((p, hub) for p in VARIABLES for hub in (False, True)):
        asked = [(p, seed + k, hub) for k in range(3)]
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            seconds, megabytes = zip(*pool.starmap(cost, asked, chunksize=1), strict=True)
        found.append({"p": p, "hub": hub, "seconds": seconds, "megabytes": megabytes})
    return found


def summary(pairs: list[tuple[float, bool]]) -> dict[str, object]:
    """What is said surely, how much of it is wrong, and shares against frequencies by bin."""
    shares, true = np.array([s for s, _ in pairs]), np.array([t for _, t in pairs])
    sure, bins = shares >= SURE, []
    for low, high in pairwise(BINS):
        inside = (shares >= low) & (shares < high)
        if inside.any():
            bins.append(
                [int(inside.sum()), float(shares[inside].mean()), float(true[inside].mean())]
            )
    return {"sure": int(sure.sum()), "wrong": int((sure & ~true).sum()), "bins": bins}


def main() -> None:
    """Measure every world."""
    options = parser(__doc__, seed=9000)
    options.add_argument("--models", type=int, default=40)
    given = options.parse_args()
    worlds = {}
    for world in WORLDS:
        found: dict[str, list] = defaultdict(list)
        for number in range(given.models):
            for key, values in measured(world, given.seed + number).items():
                found[key] += values
        effects = found.pop("effects")
        worlds[world] = {key: summary(pairs) for key, pairs in found.items()}
        if effects:
            holds, widths = zip(*effects, strict=True)
            worlds[world]["effects"] = {
                "n": len(holds),
                "hold": float(np.mean(holds)),
                "width": float(np.median(widths)),
            }
        print(world, worlds[world], flush=True)
    figures = {
        "seed": given.seed,
        "models": given.models,
        "worlds": worlds,
        "costs": costs(given.seed),
    }
    write_report(given.out, "graph_shares", figures, markdown)


def markdown(report: dict) -> str:
    """What is said surely, and frequencies by share."""
    rows = []
    for world, found in report["worlds"].items():
        said = [f"{found[key]['wrong']} of {found[key]['sure']}" for key in ("edges", "causes")]
        effects = found.get("effects")
        held = f"{effects['hold']:.3f} of {effects['n']}" if effects else "not counted"
        rows.append([world, *said, held])
    heads = [
        "world",
        "edges of .95 or more: wrong",
        "causes: wrong",
        "intervals that hold the effect",
    ]
    lines = [*table(heads, rows), ""]
    spans = [f"{low:g} to {min(high, 1):g}" for low, high in pairwise(BINS)]
    rows = []
    for world, found in report["worlds"].items():
        cells = [""] * len(spans)
        for count, share, frequency in found["causes"]["bins"]:
            number = next(k for k in range(len(spans)) if BINS[k] <= share < BINS[k + 1])
            cells[number] = f"{frequency:.2f} of {count}"
        rows.append([world, *cells])
    lines += table(["share of causes", *spans], rows)
    lines += ["", "What the draws cost beyond the run, median of three:", ""]
    rows = [
        [
            one["p"],
            "twelve" if one["hub"] else "few",
            f"{statistics.median(one['seconds']):.1f}",
            f"{statistics.median(one['megabytes']):.0f}",
        ]
        for one in report["costs"]
    ]
    lines += table(["variables", "most causes of one", "processor s", "MB"], rows)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
