"""Three hospitals alone by causal-learn's PC, and together by FedPC, on draws of one network.

    python benchmarks/alone.py --draws 20 --out benchmarks/results/alone

FedPC opens bits, its default, or sums. Draws ASIA as the README does, 6,000 patients of whom three
hospitals have 2500, 1500 and 2000, by seeds 1, 2, ...; prints the mean SHD of CPDAGs, how often the
three hospitals' graphs are all the same, and for the first draw what each hospital finds
(`docs/index.md`). causal-learn tests by G2, level 0.01.
"""

from __future__ import annotations

from statistics import mean

import numpy as np
from causallearn.search.ConstraintBased.PC import pc
from markdown_table import table
from measuring import parser, write_report

from cipherdag import CausalGraph, Federation, FedPC
from cipherdag.graphs.metrics import compare
from cipherdag.graphs.networks import asia

ALPHA = 0.01
TOGETHER = {"bits": FedPC(alpha=ALPHA), "sums": FedPC(alpha=ALPHA, reveal="sums")}
CUTS = {"north": (0, 2500), "south": (2500, 4000), "west": (4000, 6000)}


def alone(table) -> CausalGraph:
    """The CPDAG that causal-learn finds in one hospital's rows."""
    names = list(table.columns)
    codes = np.column_stack([table[name].astype("category").cat.codes for name in names])
    marks = pc(codes, ALPHA, "gsq", show_progress=False, node_names=names).G.graph
    edges = [
        (a, b, "-->" if marks[i, j] == -1 and marks[j, i] == 1 else "---")
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if (marks[i, j] == -1 and marks[j, i] == 1)
        or (i < j and marks[i, j] != 0 and marks[i, j] == marks[j, i])
    ]
    lines = ["from,to,mark", *(",".join(edge) for edge in edges)]
    return CausalGraph.from_csv("\n".join(lines) + "\n", nodes=tuple(sorted(names)))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--draws", type=int, default=20)
    options = options.parse_args()
    truth = asia().graph.to_cpdag()
    far = {name: [] for name in (*CUTS, *TOGETHER)}
    same = 0
    for seed in range(1, options.draws + 1):
        patients = asia().sample(6000, np.random.default_rng(seed))
        own = {name: patients[start:end] for name, (start, end) in CUTS.items()}
        found = {name: alone(rows) for name, rows in own.items()}
        same += len({str(graph) for graph in found.values()}) == 1
        for way, algorithm in TOGETHER.items():
            found[way] = Federation.simulate(own).run(algorithm, seed=0).finding.graph
        for name, graph in found.items():
            far[name].append(compare(graph, truth).shd)
            if seed == 1:
                print(f"{name}: SHD {far[name][0]}\n{graph}\n")
    report = {"draws": options.draws, "shd": far, "hospitals_agree": same}
    print(markdown(report))
    write_report(options.out, "alone", report, markdown)


def markdown(report: dict) -> str:
    """A row for every hospital alone, and for both ways together."""
    rows = [[name, f"{mean(own):.1f}", str(own[0])] for name, own in report["shd"].items()]
    said = f"The hospitals alone agree in {report['hospitals_agree']} of {report['draws']} draws.\n"
    return "\n".join([*table(["rows of", "mean SHD (CPDAG)", "first draw"], rows), "", said])


if __name__ == "__main__":
    main()
