"""Fed-CD with interventions dealt out over the sites, beside its comparators, on random models.

    python benchmarks/fedcd.py --lines fedcd.jsonl --out results/fedcd.json

--structures takes er-N, the names of `categorical_models.py`, or files: of edges, whose mechanisms
are then drawn, or a network's .bif.gz with its tables, as the authors' program has the three of the
paper's Table 1. Every (structure, sites, seed, method) is one line of --lines; lines that are there
already are not computed again, so that the script can be stopped and started. With --out it writes
a JSON report and, beside it, a table in Markdown under the paper's own Table 1.

Methods: ``proximity`` (with --reach), ``proximity-tails``, ``proximity-edges`` and ``naive``
(Fed-CD), ``isolated`` (the same training at the first site on its own), ``central`` (ENCO on all
rows), ``dcdi`` (on all rows, 6000 steps at 0.02 an edge), ``gies`` and ``igsp`` (on all rows, as
numbers, from the packages of the extra ``comparators``). SHD is that of the DAG;
a reversed edge counts once. The sums are plain ones: a test shows that they are the same under
every protection.
"""

from __future__ import annotations

import json
import statistics
import warnings
from pathlib import Path
from typing import ClassVar

import numpy as np
from bif import read_bif, with_interventions
from categorical_models import INTERVENED, random_model
from markdown_table import table
from measuring import add_line, parser, read_lines, timed, write_report

from cipherdag import CausalGraph, FedCD, Federation
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedcd.report import without_cycles
from cipherdag.algorithms.parameters import flattened, grouped, options_of
from cipherdag.graphs.metrics import compare
from cipherdag.questions.local_beliefs import binary_graph, edge_probability
from cipherdag.sites.answers.belief_answers import learn as train
from cipherdag.sites.answers.belief_answers import site_generator, weighted_answer
from cipherdag.sites.compute.beliefs.regimes import Regimes
from cipherdag.sites.compute.device import resolve_device

FEDERATED = ("proximity", "proximity-tails", "proximity-edges", "naive", "isolated")
ALONE = ("central", "dcdi", "gies", "igsp")  # the same whatever the number of sites
TRAINING = ("epochs", "fit_steps", "graph_steps", "batch", "graphs", "hidden")
AVERAGING = ("sharpness", "prior_weight", "start", "reach")
METHODS = (*FEDERATED, *ALONE)
DCDI = {"method": "dcdi-g", "rounds": 1, "epochs": 1, "fit_steps": 6000, "sparsity": 0.02}
IGSP_LEVEL, IGSP_RUNS = 1e-3, 5

# Abyaneh et al., "FED-CD" (2023), Table 1: mean SHD and its spread; d = 20 for ER
PAPER_COLUMNS = ("ER-1", "ER-2", "ER-4", "ER-6", "Sachs", "Alarm", "Asia")
PAPER = {
    "GIES": ("14.4 ± 2.1", "46.9 ± 0.8", "127.3 ± 1.6", "168.8 ± 0.7", "21.3 ± 4.3", "43.2 ± 7.5",
             "13.8 ± 3.1"),
    "IGSP": ("11.8 ± 2.8", "43.7 ± 0.7", "118.5 ± 0.4", "152.8 ± 0.1", "14.4 ± 3.4", "25.1 ± 1.4",
             "12.6 ± 2.7"),
    "DCDI": ("3.0 ± 1.1", "24.3 ± 2.1", "31.4 ± 8.6", "43.0 ± 12.3", "6.9 ± 1.2", "36.8 ± 2.3",
             "6.1 ± 1.6"),
    "ENCO": ("1.9 ± 0.1", "4.3 ± 0.1", "5.7 ± 0.2", "7.8 ± 0.3", "0.5 ± 0.4", "13.8 ± 2.5",
             "1.9 ± 0.1"),
    "FED-CD (2-clients)": ("2.6 ± 0.6", "3.9 ± 0.4", "4.1 ± 0.1", "5.5 ± 0.3", "0.9 ± 0.3",
                           "14.2 ± 0.8", "1.5 ± 0.6"),
    "FED-CD (4-clients)": ("2.3 ± 0.4", "3.3 ± 0.7", "4.6 ± 0.6", "5.7 ± 0.4", "0.8 ± 0.5",
                           "13.9 ± 3.1", "1.7 ± 0.4"),
}  # fmt: skip


def main() -> None:
    options = parse()
    done = read_lines(options.lines)
    for seed in options.seeds:
        for structure in options.structures:
            for sites in options.sites:
                for method in options.methods:
                    case = {
                        "structure": name_of(structure),
                        "d": None if structure.endswith((".csv", ".gz")) else options.d,
                        "sites": 0 if method in ALONE else sites,
                        "seed": seed,
                        "method": method,
                    }
                    if options.report or any(case.items() <= line.items() for line in done):
                        continue
                    done.append(case | measure(case, structure, options))
                    add_line(options.lines, done[-1])
                    print(json.dumps(done[-1]), flush=True)
    report = figures(options, done)
    write_report(options.out, "fedcd", report, markdown)
    print(markdown(report))


def name_of(structure: str) -> str:
    """`alarm` of `alarm_edges.csv`, `alarm.bif` of `alarm.bif.gz`, `er-2` of itself."""
    return Path(structure).name.removesuffix(".csv").removesuffix(".gz").removesuffix("_edges")


def measure(case: dict, structure: str, options) -> dict:
    rng = np.random.default_rng(case["seed"])
    rows = options.observational, options.per_variable
    if structure.endswith(".bif.gz"):
        model = read_bif(Path(structure), numbered=True)
        frame = with_interventions(model, *rows, rng)
    else:
        model = random_model(structure, options.d, rng)
        frame = model.frame(*rows, rng)
    _, cpu, (graphs, entropies) = timed(learn, case, frame, model.names, options)
    metrics = [compare(graph, model.graph) for graph in graphs]
    last = metrics[-1]
    return {
        "edges": len(model.graph.edges),
        "shd": last.shd,
        "reverse": last.reverse,
        "extra": last.extra,
        "miss": last.miss,
        "shd_by_round": [m.shd for m in metrics],
        "entropies": entropies,
        "cpu_s": round(cpu, 1),
    }


def learn(case, frame, names, options) -> tuple[list[CausalGraph], list[float]]:
    """The graph after every round, the last one last, and the edge entropies.

    Beliefs have the order of a site's table, which is that of the names.
    """
    method, seed, names = case["method"], case["seed"], tuple(sorted(names))
    if method in ("gies", "igsp"):
        return [{"gies": gies_graph, "igsp": igsp_graph}[method](frame, names)], []
    federation = Federation.split(
        frame,
        max(1, case["sites"]),
        seed=seed,
        interventions=INTERVENED,
        deal=options.deal,
        protection="none",
        device=options.device,
    )
    sites = federation.sites[:1] if method == "isolated" else federation.sites
    own = DCDI if method == "dcdi" else {"aggregation": "naive"} if method == "naive" else {}
    if method.startswith("proximity-"):
        own = {"reach": method.removeprefix("proximity-")}
    algorithm = parameters(options, **own)
    answers = [Trainer(site.table, case, number, options) for number, site in enumerate(sites)]
    asking = algorithm.ask(Facts(len(names), len(sites), seed=seed))
    graphs, question = [], next(asking)
    while True:
        try:
            question = asking.send(sum(answer(question) for answer in answers))
        except StopIteration as finished:
            return [*graphs, CausalGraph.from_arcs(names, finished.value.arcs)], list(
                finished.value.entropies
            )
        last = question.belief_arrays()
        arcs, _ = without_cycles(binary_graph(last), edge_probability(last))
        graphs.append(CausalGraph.from_arcs(names, arcs))


class Trainer:
    """A site's answers; training that several methods have in common is done once."""

    done: ClassVar[dict] = {}

    def __init__(self, table, case: dict, number: int, options) -> None:
        self.table, self.least = table, options.min_cell_size
        own = ("structure", "seed", "sites")
        self.key = (*(case[name] for name in own), case["method"] == "dcdi", number)
        self.regimes = Regimes.of(
            table.numbers(),
            table.cardinalities,
            table.interventions,
            device=resolve_device(options.device),
            least=self.least,
        )

    def __call__(self, question) -> np.ndarray:
        key = (*self.key, question.round, question.belief)
        if key not in self.done:
            self.done[key] = train(question, self.regimes, site_generator(question, self.table))
        counts = self.regimes.counts().numpy()
        return weighted_answer(question, self.done[key], counts, self.table.rows, least=self.least)


def parameters(options, **others) -> FedCD:
    names = ("rounds", *TRAINING, *AVERAGING)
    given = {name: getattr(options, name) for name in names}
    return FedCD(**grouped(FedCD, given | others))


def gies_graph(frame, names) -> CausalGraph:
    import gies

    blocks, targets = regimes(frame, names)
    found, _ = gies.fit_bic(blocks, targets)
    return CausalGraph.from_arcs(names, np.asarray(found) != 0)


def igsp_graph(frame, names) -> CausalGraph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from conditional_independence import (
            MemoizedCI_Tester,
            MemoizedInvarianceTester,
            gauss_invariance_suffstat,
            gauss_invariance_test,
            partial_correlation_suffstat,
            partial_correlation_test,
        )
        from graphical_model_learning import igsp

    blocks, targets = regimes(frame, names)
    independence = MemoizedCI_Tester(
        partial_correlation_test,
        partial_correlation_suffstat(blocks[0], invert=True),
        alpha=IGSP_LEVEL,
    )
    invariance = MemoizedInvarianceTester(
        gauss_invariance_test, gauss_invariance_suffstat(blocks[0], blocks[1:]), alpha=IGSP_LEVEL
    )
    settings = [{"interventions": set(own)} for own in targets[1:]]
    np.random.seed(0)  # noqa: NPY002 - the package draws its start from numpy's global state
    dag = igsp(settings, set(range(len(names))), independence, invariance, nruns=IGSP_RUNS)
    arcs = np.zeros((len(names),) * 2, dtype=bool)
    for i, j in dag.arcs:
        arcs[i, j] = True
    return CausalGraph.from_arcs(names, arcs)


def regimes(frame, names) -> tuple[list[np.ndarray], list[list[int]]]:
    """The observational block and one block for every intervened variable, as numbers."""
    values, marks = frame[list(names)].to_numpy(float), frame[INTERVENED].to_numpy()
    blocks = [values[marks == ""], *(values[marks == name] for name in names)]
    return blocks, [[], *([j] for j in range(len(names)))]


def figures(options, lines: list[dict]) -> dict:
    settings = flattened(FedCD, parameters(options).get_params()) | {
        name: getattr(options, name)
        for name in ("d", "observational", "per_variable", "min_cell_size", "deal")
    }
    return {"settings": settings, "cases": lines}


def markdown(report: dict) -> str:
    """All tables."""
    settings, lines = report["settings"], report["cases"]
    structures = list(dict.fromkeys(line["structure"] for line in lines))
    sites = sorted({line["sites"] for line in lines} - {0})
    methods = [name for name in METHODS if any(line["method"] == name for line in lines)]
    together = [name for name in methods if name not in ALONE]
    rounds = range(settings["rounds"])
    titles = [f"round {number + 1}" for number in rounds]
    seeds = {line["seed"] for line in lines}
    rows, more = settings["observational"], settings["per_variable"]
    drawn = any(line["d"] for line in lines)
    what = f"{settings['d']} variables" if drawn else "published networks with their tables"
    text = [
        f"# Fed-CD, {what}, interventions dealt out over the sites",
        "",
        f"SHD: median over {len(seeds)} seeds, [smallest, largest] (runs).",
        f"{rows} observational rows and {more} per intervened",
        "variable in all, dealt out over the sites; an isolated site has its own share of both.",
        "The JSON file beside this one has every run and the training parameters.",
        "",
        *table(
            ["method", "sites", *structures],
            [
                [method, n or "all rows", *(cell(lines, s, n, method) for s in structures)]
                for n in (0, *sites)
                for method in methods
                if (method in ALONE) == (n == 0)
            ],
        ),
        "",
        "After every round, the same way; an isolated site trains as long as the others:",
        "",
        *table(
            ["method", "sites", "structure", *titles],
            [
                [method, n, s, *(cell(lines, s, n, method, k) for k in rounds)]
                for n in sites
                for method in together
                for s in structures
            ],
        ),
        *_beside_naive_table(lines, sites, titles),
        "",
        "Table 1 of the paper, transcribed (mean SHD ± spread). It has d = 20 for ER, other data",
        "sizes and far longer training, so only the order of the methods can be compared.",
        "",
        *table(["DAG type", *PAPER_COLUMNS], [[name, *row] for name, row in PAPER.items()]),
    ]
    return "\n".join(text) + "\n"


def _beside_naive_table(lines: list[dict], sites: list[int], titles: list[str]) -> list[str]:
    if not any(line["method"] == "naive" for line in lines):
        return []
    rows = [
        [n, *(" / ".join(map(str, beside_naive(lines, n, k))) for k in range(len(titles)))]
        for n in sites
    ]
    return [
        "",
        "In how many cases the SHD of `proximity` was smaller than, as large as, and larger than",
        "that of `naive` on the same data, after every round:",
        "",
        *table(["sites", *titles], rows),
    ]


def beside_naive(lines: list[dict], sites: int, number: int) -> tuple[int, int, int]:
    """Smaller, as large and larger SHDs of proximity after a round, case by case."""
    found: dict[str, dict[tuple, int]] = {"proximity": {}, "naive": {}}
    for line in lines:
        if line["sites"] == sites and line["method"] in found:
            own = line["shd_by_round"]
            key = line["structure"], line["seed"]
            found[line["method"]][key] = own[min(number, len(own) - 1)]
    proximity, naive = found["proximity"], found["naive"]
    gaps = [proximity[key] - naive[key] for key in proximity.keys() & naive.keys()]
    return sum(g < 0 for g in gaps), gaps.count(0), sum(g > 0 for g in gaps)


def cell(lines: list[dict], structure: str, sites: int, method: str, number: int = -1) -> str:
    """Median, range and number of runs, of the SHD after a round, the last by default."""
    wanted = {"structure": structure, "sites": sites, "method": method}
    rounds = [line["shd_by_round"] for line in lines if wanted.items() <= line.items()]
    # a run that all sites agreed on early keeps its graph
    found = [own[min(number, len(own) - 1)] for own in rounds]
    if not found:
        return "-"
    return f"{statistics.median(found):.3g} [{min(found):.3g}, {max(found):.3g}] ({len(found)})"


def parse():
    options = parser(__doc__)
    options.add_argument("--lines", type=Path, required=True)
    options.add_argument("--structures", nargs="+", default=["er-2", "er-4"])
    options.add_argument("--d", type=int, default=10)
    options.add_argument("--sites", nargs="+", type=int, default=[2, 5])
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    usual = [name for name in METHODS if name != "dcdi"]
    options.add_argument("--methods", nargs="+", choices=METHODS, default=usual)
    options.add_argument("--observational", type=int, default=10_000)
    options.add_argument("--per-variable", type=int, default=200)
    options.add_argument("--min-cell-size", type=int, default=1)
    options.add_argument("--deal", choices=["vertical", "horizontal"], default="vertical")
    options.add_argument("--device", default="cpu")
    options.add_argument("--report", action="store_true", help="Print what is there, run nothing.")
    known = options_of(FedCD)
    for name in ("rounds", *TRAINING, *AVERAGING):
        own, flag = known[name], "--" + name.replace("_", "-")
        options.add_argument(flag, type=own.kind, choices=own.choices or None, default=own.default)
    return options.parse_args()


if __name__ == "__main__":
    main()
