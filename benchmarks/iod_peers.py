"""All graphs that fit overlapping columns, beside rIOD, the program that python-fedci calls.

    git clone https://github.com/adele/rIOD && git clone https://github.com/adele/FCI.Utils
    python benchmarks/iod_peers.py FOLDER --seeds 60 --out benchmarks/results/iod_peers.json

FOLDER holds both; R needs pcalg, dagitty, rje, ggm, foreach, future.apply and jsonlite. Every
test is answered by d-separation on a DAG, so that the lists are compared and not the tests: the two
examples that rIOD comes with, and random DAGs of 4 or 5 variables and up to 2 that nobody measured,
of which two or three groups lack one each. rIOD (procedure "original") allows selection, which our
search does not: its graphs with an undirected edge are counted by themselves. It goes through all
sets of triples, so a case of which it has no list after LIMIT seconds is counted, too.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from markdown_table import table
from measuring import parser, write_report

from cipherdag.graphs.ancestral.classes import dag_of_pag, pag_of_dag
from cipherdag.graphs.ancestral.integration import LocalPAG, integrate_pags
from cipherdag.graphs.endpoints import ARROW, CIRCLE, NONE, TAIL
from cipherdag.graphs.pag import PAG

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 120
NAMES = "ABCDE"
EXAMPLES = {
    "example": ("A <-> C", "A <-> D", "B o-> C", "C --> D", "C --> E", "D --> E"),
    "check": ("A o-o B", "A o-> D", "B o-> C", "C <-> D", "C <-> E", "D --> E"),
}
"""The PAGs that rIOD's authors try it on (github.com/adele/rIOD, example/example2.R)."""
MARKS = {0: NONE, 1: CIRCLE, 2: ARROW, 3: TAIL}
"""pcalg's numbers of marks."""


def cases(seeds: int) -> Iterator[tuple[str, np.ndarray, int, list[tuple[int, ...]]]]:
    """A name, a DAG, how many of its variables somebody measured, and who measured which."""
    for name, edges in EXAMPLES.items():
        marks = PAG.from_marked(NAMES, [(own[0], own[-1], own[2:5]) for own in edges]).endpoints
        yield name, dag_of_pag(marks), 5, [(0, 2, 3, 4), (0, 1, 2, 4)]
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        measured, hidden = int(rng.integers(4, 6)), int(rng.integers(0, 3))
        p = measured + hidden
        density = min(1.0, rng.uniform(1.0, 2.5) / (p - 1))
        order = rng.permutation(p)
        dag = np.triu(rng.uniform(size=(p, p)) < density, 1)[np.ix_(order, order)]
        lacking = rng.choice(measured, size=int(rng.integers(2, 4)), replace=False)
        groups = [tuple(v for v in range(measured) if v != without) for without in lacking]
        yield f"seed {seed}", dag, measured, groups


def answers(dag: np.ndarray, group: tuple[int, ...]) -> list[list[object]]:
    """Every test among a group's columns as rIOD reads it: size, x, y, set, p-value."""
    graph = nx.DiGraph(map(tuple, np.argwhere(dag)))
    graph.add_nodes_from(range(len(dag)))
    found: list[list[object]] = []
    for x, y in combinations(range(len(group)), 2):
        others = [v for v in range(len(group)) if v not in (x, y)]
        for size in range(len(others) + 1):
            for given in combinations(others, size):
                apart = nx.is_d_separator(graph, {group[x]}, {group[y]}, {group[v] for v in given})
                said = ",".join(str(v + 1) for v in given)
                found.append([size, x + 1, y + 1, said, float(apart)])
    return found


def of_rIOD(  # noqa: N802
    folder: Path, dag: np.ndarray, measured: int, groups: list[tuple[int, ...]]
) -> dict[str, Any] | None:
    """Its ``pags``, ``seconds`` without R's start and ``versions``; None where beyond `LIMIT`."""
    asked = {
        "names": list(NAMES[:measured]),
        "groups": [[NAMES[v] for v in group] for group in groups],
        "tests": [answers(dag, group) for group in groups],
    }
    with TemporaryDirectory() as made:
        path = Path(made) / "case.json"
        path.write_text(json.dumps(asked), "utf-8")
        command = ["Rscript", str(Path(__file__).with_name("riod.R")), str(folder), str(path)]
        try:
            said = subprocess.run(
                command, check=True, capture_output=True, text=True, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            return None
    told = json.loads(said.stdout)
    of_ours = np.vectorize(MARKS.get, otypes=[np.int8])
    return told | {"pags": [of_ours(np.array(own)) for own in told["pags"]]}


def compared(folder: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """How many graphs both list, and one alone."""
    for name, dag, measured, groups in cases(seeds):
        began = time.process_time()
        ours = integrate_pags(
            measured, [LocalPAG(own, pag_of_dag(dag, own)) for own in groups], most=10**6
        )
        seconds = time.process_time() - began
        row = {"case": name, "variables": measured, "groups": len(groups), "ours_s": seconds}
        row |= {"ours": len(ours.pags), "complete": ours.complete}
        told = of_rIOD(folder, dag, measured, groups)
        if told is not None:
            theirs = told["pags"]
            row |= {"theirs_s": told["seconds"], "versions": told["versions"]}
            directed = {own.tobytes() for own in theirs if not undirected(own)}
            listed = {own.astype(np.int8).tobytes() for own in ours.pags}
            row |= {"theirs": len(theirs), "undirected": sum(map(undirected, theirs))}
            row |= {"only_ours": len(listed - directed), "only_theirs": len(directed - listed)}
        print(json.dumps(row), flush=True)
        yield row


def undirected(marks: np.ndarray) -> bool:
    """Whether some edge has two tails, as only selection gives it."""
    return bool(((marks == TAIL) & (marks.T == TAIL)).any())


def markdown(report: dict[str, Any]) -> str:
    rows = []
    for variables in sorted({own["variables"] for own in report["cases"]}):
        mine = [own for own in report["cases"] if own["variables"] == variables]
        told = [own for own in mine if "theirs" in own]
        same = [own for own in told if not own["only_ours"] and not own["only_theirs"]]
        rows.append(
            [
                variables,
                len(mine),
                len(told),
                len(same),
                sum(own["ours"] for own in told),
                sum(own["theirs"] - own["undirected"] for own in told),
                sum(own["undirected"] for own in told),
                f"{statistics.median(own['ours_s'] for own in told):.3f}",
                f"{statistics.median(own['theirs_s'] for own in told):.2f}",
            ]
        )
    headings = [
        "variables", "cases", f"rIOD ended within {LIMIT} s", "same lists", "our graphs",
        "rIOD's", "and with undirected edges", "our s", "rIOD's s",
    ]  # fmt: skip
    return "\n".join([*table(headings, rows), ""])


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--seeds", type=int, default=60)
    given = options.parse_args()
    found = list(compared(given.folder, given.seeds))
    write_report(given.out, "iod_peers", {"cases": found}, markdown)


if __name__ == "__main__":
    main()
