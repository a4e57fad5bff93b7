"""Whether graphs are what their types say, on random data sets of all kinds of columns.

    python benchmarks/valid_graphs.py --sets 2000 --lines valid.jsonl --out valid_graphs

A data set has 3 to 6 columns at 2 to 6 sites of 5 to 400 rows: numbers, skewed or heavy-tailed
ones, categories in an order or not, up to twelve and rare ones, copies, sums, constants, and
missing values; some follow from others, and some sites have distributions that are their own. Of
`FedBOSS`, which needs columns of one kind, all are numbers or all categories. On
each one algorithm runs, in turns, with its level, rule for colliders, bootstrap and knowledge drawn
at random. A `CPDAG` is right where it is the consensus of all DAGs of one class, an `MPDAG` where
it is that of its own DAGs, found by trying every direction (`tests/support/enumeration.py`). A
`PAG` is checked again by its type when it is read back. Counted are graphs by type,
runs that end in a named error, and graphs that are not what their type says, of which there must
be none.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from markdown_table import table
from measuring import add_line, parser, read_lines, write_report

from cipherdag import (
    CPDAG,
    MPDAG,
    FedBOSS,
    Federation,
    FedFCI,
    FedPC,
    Knowledge,
    Policy,
    Run,
    Scoring,
)
from cipherdag.errors import CipherdagError
from cipherdag.sites.policy.policy import QUESTION_KINDS

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from enumeration import consensus, every_extension, pattern_of

ALGORITHMS = ("FedPC", "FedPC, sums", "FedPC, bootstrap", "FedFCI", "FedBOSS")
PURE = ("FedBOSS",)
LEVELS = (0.001, 0.01, 0.05, 0.3)
RULES = ("auto", "sepset", "conservative", "majority", "p_value_drop")
POLICY = Policy(questions=QUESTION_KINDS, min_cell_size=0, min_sites=2, tolerated_colluders=0)


def main() -> None:
    options = parser(__doc__, seed=0)
    options.add_argument("--sets", type=int, default=2000)
    options.add_argument("--lines", type=Path, default=Path("valid_graphs.jsonl"))
    options = options.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    cases = read_lines(options.lines)
    for number in range(len(cases), options.sets):
        cases.append(measured(number, options.seed))
        add_line(options.lines, cases[-1])
        if cases[-1]["fault"]:
            print(cases[-1], flush=True)
    counts = Counter((case["algorithm"], case["type"]) for case in cases)
    report = {
        "sets": len(cases),
        "counts": [[*key, count] for key, count in sorted(counts.items())],
        "faults": [case for case in cases if case["fault"]],
    }
    print(markdown(report))
    write_report(options.out, "valid_graphs", report, markdown)


def measured(number: int, seed: int) -> dict:
    """The type of one run's graph, or its error, and what is wrong with it."""
    rng = np.random.default_rng((seed, number))
    name = ALGORITHMS[number % len(ALGORITHMS)]
    sites = drawn(rng, (NUMBERS, CATEGORIES)[int(rng.integers(2))] if name in PURE else KINDS)
    known = knowledge(rng, list(next(iter(sites.values())).columns))
    case = {"number": number, "algorithm": name}
    try:
        federation = Federation.simulate(sites, device="cpu", policy=POLICY)
        result = federation.run(algorithm(name, rng, known), seed=number)
    except CipherdagError as error:
        return case | {"type": type(error).__name__, "fault": ""}
    return case | {"type": type(result.finding.graph).__name__, "fault": fault(result)}


def algorithm(name: str, rng: np.random.Generator, known: Knowledge | None):
    """An algorithm with parameters at random."""
    if name == "FedBOSS":
        bootstrap = 2 * int(rng.random() < 0.2)
        return FedBOSS(knowledge=known, bootstrap=bootstrap, scoring=Scoring(restarts=1))
    own = {"alpha": float(rng.choice(LEVELS)), "knowledge": known}
    if name == "FedFCI":
        return FedFCI(**own, reveal=str(rng.choice(["bits", "sums"])))
    own["colliders"] = str(rng.choice(RULES))
    if name == "FedPC, bootstrap":
        return FedPC(**own, reveal="sums", bootstrap=2)
    return FedPC(**own, reveal="bits" if name == "FedPC" else "sums")


def fault(result) -> str:
    """What is wrong with a graph or with what was written of it; empty if nothing is."""
    graph = result.finding.graph
    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder) / "run")
        again = Run.load(Path(folder) / "run")  # makes the graph, and its check, anew
    if type(again.finding.graph) is not type(graph) or again.finding.graph != graph:
        return "the saved graph is another one"
    return of_class(graph) if isinstance(graph, MPDAG) else ""


def of_class(graph: MPDAG) -> str:
    """What is wrong with a class of DAGs, by trying all directions."""
    dags = list(every_extension(graph.arcs))
    if not dags:
        return "it stands for no DAG"
    if (consensus(dags) != graph.arcs).any():
        return "an edge without an arrow has one direction only"
    if isinstance(graph, CPDAG):
        completed = consensus(every_extension(pattern_of(dags[0])))
        if (completed != graph.arcs).any():
            return "an arrow that a DAG of the class turns round"
    return ""


def knowledge(rng: np.random.Generator, names: list[str]) -> Knowledge | None:
    """In a quarter of the runs tiers, or an edge that is required or forbidden."""
    chance = rng.random()
    first, second = rng.permutation(names)[:2].tolist()
    if chance < 0.1:
        return Knowledge(tiers=((first,), (second,)))
    if chance < 0.2:
        return Knowledge(forbidden=((first, second),))
    if chance < 0.25:
        return Knowledge(required=((first, second),))
    return None


def drawn(rng: np.random.Generator, among: tuple) -> dict[str, pd.DataFrame]:
    """The tables of the sites, with the same columns, each of one of these kinds."""
    width, sites = int(rng.integers(3, 7)), int(rng.integers(2, 7))
    kinds = [among[k] for k in rng.choice(len(among), width)]
    parents = [rng.permutation(k)[: rng.integers(0, 3)] for k in range(width)]
    slopes = rng.normal(0.0, 1.5, (width, width))
    lost = rng.random() < 0.3
    tables = {}
    for site in range(sites):
        rows = int(rng.choice([5, 20, 60, 150, 400]))
        shift = rng.normal(0.0, 1.0, width) * (rng.random() < 0.3)
        latent, columns = np.zeros((rows, width)), {}
        for k, kind in enumerate(kinds):
            latent[:, k] = latent[:, parents[k]] @ slopes[k, parents[k]] + shift[k]
            latent[:, k] += rng.standard_normal(rows)
            columns[f"c{k}"] = kind(rng, latent, k)
        frame = pd.DataFrame(columns)
        if lost:
            frame = frame.mask(rng.random(frame.shape) < 0.1)
        tables[f"site{site}"] = frame
    return tables


def number(_rng, latent, k):
    return latent[:, k]


def skewed(_rng, latent, k):
    return np.exp(np.clip(latent[:, k], -8.0, 8.0))


def heavy(rng, latent, k):
    return latent[:, k] + rng.standard_t(2, len(latent))


def halves(_rng, latent, k):
    return np.where(latent[:, k] > 0.0, "yes", "no")


def rare(_rng, latent, k):
    return np.where(latent[:, k] > 2.0, "yes", "no")


def twelve(_rng, latent, k):
    """Twelve categories without an order."""
    codes = np.clip(np.floor(latent[:, k] * 2.0) + 6.0, 0.0, 11.0).astype(int)
    return np.array(list("ahbicjdkelfg"))[codes]


def steps(_rng, latent, k):
    """Whole numbers of few values."""
    return np.clip(np.rint(latent[:, k]), -2.0, 2.0).astype(int)


def copy(_rng, latent, k):
    """The first column, twice as large."""
    latent[:, k] = latent[:, 0]
    return 2.0 * latent[:, 0] + 1.0


def total(_rng, latent, k):
    """The sum of all columns before it."""
    latent[:, k] = latent[:, :k].sum(axis=1)
    return latent[:, k]


def constant(_rng, latent, k):
    latent[:, k] = 0.0
    return np.ones(len(latent))


NUMBERS = (number, number, skewed, heavy, copy, total)
CATEGORIES = (halves, halves, rare, twelve)
KINDS = (*NUMBERS, *CATEGORIES, steps, constant)


def markdown(report: dict) -> str:
    """Runs by algorithm and by what they came to."""
    kinds = list(dict.fromkeys(kind for _, kind, _ in report["counts"]))
    found = {(name, kind): count for name, kind, count in report["counts"]}
    rows = [[name, *(str(found.get((name, kind), 0)) for kind in kinds)] for name in ALGORITHMS]
    faults = f"{len(report['faults'])} of {report['sets']:,} graphs are not what their type says.\n"
    return "\n".join([*table(["algorithm", *kinds], rows), "", faults])


if __name__ == "__main__":
    main()
