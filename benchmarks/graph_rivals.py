"""What BiDAG and pcalg say of the matrices that graphs are drawn from.

    python benchmarks/graph_rivals.py --export FOLDER [--models 10]
    Rscript benchmarks/graph_rivals.R FOLDER
    python benchmarks/graph_rivals.py --read FOLDER [--out benchmarks/results/graph_rivals.json]

The worlds are those of `graph_shares.py`, and the matrices those within sites. Both packages take
them as of one site. Of a CPDAG an arrow is said, and a cause where a directed path leads to the
effect; of a chain what it has in .95 or more of its graphs.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from graph_shares import NAMES, ROWS, SITES, SURE, WORLDS, P, covariances, model
from markdown_table import table
from measuring import parser, write_report

from cipherdag.algorithms.fedboss.graph_draws import draw_graphs
from cipherdag.graphs.graph_sample import GraphSample
from cipherdag.graphs.knowledge import Constraints

FREEDOM = SITES * (ROWS - 1)
METHODS = {
    "drawn": "cipherdag",
    "partition": "BiDAG, partitions",
    "order": "BiDAG, orders",
    "pc": "pcalg, pc",
    "ges": "pcalg, ges",
}


def world_of(world: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights of a model and the sums of products within sites, as `graph_shares` has them."""
    rng = np.random.default_rng([WORLDS.index(world), seed])
    weights = model(world, rng)
    return weights, covariances(world, weights, rng).sum(axis=0)


def stem(world: str, seed: int) -> str:
    """How files of a model are called."""
    return f"{world.replace(' ', '-')}_{seed}_n{FREEDOM}"


def export(folder: Path, seeds: range) -> None:
    """Write every matrix."""
    folder.mkdir(parents=True, exist_ok=True)
    for world in WORLDS:
        for seed in seeds:
            _, sums = world_of(world, seed)
            np.savetxt(folder / f"matrix_{stem(world, seed)}.csv", sums, delimiter=",", fmt="%.17g")


def drawn(sums: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Shares of this package's graphs."""
    spread, rng = np.sqrt(np.diagonal(sums)), np.random.default_rng(seed)
    began = time.process_time()
    arcs = draw_graphs(sums / np.outer(spread, spread), FREEDOM, Constraints.none(P), rng)
    taken = time.process_time() - began
    sample = GraphSample(NAMES, arcs)
    return {"arrows": sample.arrows, "causes": sample.causes, "seconds": np.array(taken)}


def said(folder: Path, method: str, world: str, seed: int) -> dict[str, np.ndarray]:
    """What the R script wrote of a method."""
    parts = ("arrows", "causes", "seconds")
    files = {part: folder / f"said_{method}_{part}_{stem(world, seed)}.csv" for part in parts}
    return {part: np.loadtxt(file, delimiter=",") for part, file in files.items()}


def compared(folder: Path, seeds: range) -> list[dict[str, object]]:
    """Every method in every world: what is said of edges, arrows and causes, and what is wrong."""
    found = []
    for world in WORLDS:
        counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        times = defaultdict(list)
        for seed in seeds:
            weights, sums = world_of(world, seed)
            true, off = weights != 0, ~np.eye(P, dtype=bool)
            paths = GraphSample(NAMES, true[None]).causes > 0
            for method in METHODS:
                one = drawn(sums, seed) if method == "drawn" else said(folder, method, world, seed)
                open_arcs = one["arrows"] * one["arrows"].T  # of a CPDAG: no direction
                as_class = method in ("pc", "ges")
                joined = (
                    np.maximum(one["arrows"], one["arrows"].T)
                    if as_class
                    else (one["arrows"] + one["arrows"].T)
                )
                arrows = one["arrows"] - open_arcs if as_class else one["arrows"]
                for what, shares, right, pairs in (
                    ("edges", joined, true | true.T, np.triu(off)),
                    ("arrows", arrows, true, off),
                    ("causes", one["causes"], paths, off),
                ):
                    sure = (shares >= SURE) & pairs
                    counts[method][what] += int(sure.sum())
                    counts[method][f"{what} wrong"] += int((sure & ~right).sum())
                    counts[method][f"{what} true"] += int((right & pairs).sum())
                times[method].append(float(one["seconds"]))
        found += [
            {"world": world, "method": method, "seconds": times[method], **counts[method]}
            for method in METHODS
        ]
    return found


def markdown(report: dict) -> str:
    """Wrong and right among what is said surely, by world and method."""
    rows = []
    for one in report["cases"]:
        cells = [f"{one[f'{what} wrong']} of {one[what]}" for what in ("edges", "arrows", "causes")]
        missing = one["causes true"] - (one["causes"] - one["causes wrong"])
        rows.append(
            [
                one["world"],
                METHODS[one["method"]],
                *cells,
                f"{missing} of {one['causes true']}",
                f"{statistics.median(one['seconds']):.1f}",
            ]
        )
    heads = ["world", "method", "edges: wrong", "arrows: wrong", "causes: wrong"]
    return "\n".join(table([*heads, "causes not said", "processor s"], rows)) + "\n"


def main() -> None:
    """Write the matrices, or read what was said of them."""
    options = parser(__doc__, seed=9000)
    options.add_argument("--models", type=int, default=10)
    options.add_argument("--export", type=Path, help="folder for the matrices")
    options.add_argument("--read", type=Path, help="the folder, once the R script has run")
    given = options.parse_args()
    seeds = range(given.seed, given.seed + given.models)
    if given.export is not None:
        export(given.export, seeds)
    if given.read is not None:
        cases = compared(given.read, seeds)
        figures = {"seed": given.seed, "models": given.models, "cases": cases}
        write_report(given.out, "graph_rivals", figures, markdown)
        print(markdown(figures))


if __name__ == "__main__":
    main()
