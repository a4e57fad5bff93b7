"""The first tutorial's recipe on many samples: false edges and wrong arrows of every algorithm.

    python benchmarks/first_graph.py --samples 20 --out results

6,000 patients of ASIA at three hospitals with 2,500, 1,500 and 2,000 rows, and every algorithm that
learns a graph of categories with its defaults: what a reader of "Your first graph" gets. Prints and
writes, per algorithm over all samples, edges that the truth lacks, edges that it has and were not
found, arrows against it, edges that stand since a test was not done, and samples whose report goes
on to effects.
"""

from __future__ import annotations

import numpy as np
from markdown_table import table
from measuring import parser, write_report

from cipherdag import FedBOSS, Federation, FedFCI, FedPC, RFcd
from cipherdag.graphs.networks import asia

ROWS = (2500, 1500, 2000)
ALGORITHMS = {
    "FedPC": FedPC(),
    "FedPC, sums": FedPC(reveal="sums"),
    "FedPC, votes": FedPC(evidence="vote"),
    "FedFCI": FedFCI(),
    "FedBOSS": FedBOSS(),
    "RFcd": RFcd(),
}
COUNTED = ("false edges", "missing edges", "wrong arrows", "right arrows", "undone", "goes on")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--samples", type=int, default=20)
    options.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS), choices=ALGORITHMS)
    arguments = options.parse_args()
    cases = []
    for name in arguments.algorithms:
        samples = [measured(name, seed) for seed in range(1, arguments.samples + 1)]
        totals = {own: sum(sample[own] for sample in samples) for own in COUNTED}
        cases.append({"algorithm": name, "samples": samples, "totals": totals})
        print(name, totals, flush=True)
        write_report(arguments.out, "first_graph", {"cases": cases}, markdown)


def measured(name: str, seed: int) -> dict:
    """The faults of one sample."""
    patients = asia().sample(sum(ROWS), np.random.default_rng(seed))
    cuts = np.split(np.arange(len(patients)), np.cumsum(ROWS)[:-1])
    sites = {
        site: patients.iloc[own] for site, own in zip(("north", "south", "west"), cuts, strict=True)
    }
    result = Federation.simulate(sites).run(ALGORITHMS[name], seed=0)
    true = {frozenset(own) for own in asia().graph.directed}
    found = {frozenset((own.source, own.target)) for own in result.finding.graph.edges}
    arrows = {(own.source, own.target) for own in result.finding.graph.edges if own.mark == "-->"}
    turned = {(effect, cause) for cause, effect in asia().graph.directed}
    return {
        "seed": seed,
        "false edges": len(found - true),
        "missing edges": len(true - found),
        "wrong arrows": len(arrows & turned),
        "right arrows": len(arrows & set(asia().graph.directed)),
        "undone": sum(not own.stands_on_evidence for own in result.finding.evidence.edges),
        "goes on": "What to adjust for" in result.page(),
    }


def markdown(report: dict) -> str:
    """One row per algorithm."""
    rows = [
        [case["algorithm"], len(case["samples"]), *(case["totals"][own] for own in COUNTED)]
        for case in report["cases"]
    ]
    return "\n".join([*table(["algorithm", "samples", *COUNTED], rows), ""])


if __name__ == "__main__":
    main()
