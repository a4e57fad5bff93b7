"""FedPC's Figures 7 and 8: edges after each layer, and the skeleton's SHD by the share of votes.

    python benchmarks/fedpc_figures.py DATA_FOLDER --out benchmarks/results/fedpc_figures.json

DATA_FOLDER is what `fedpc_data` reads. Votes of ten sites with uneven parts of 5000 rows, the
paper's rule. Figure 7: the skeleton with sets of at most 0 to 5 variables. Figure 8: edges that the
skeleton misses or has too many, where an edge needs more than 20 % to 90 % of the sites.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from fedpc_data import draw
from fedpc_tables import policy
from markdown_table import table
from measuring import parser, write_report

from cipherdag import Federation, FedPC
from cipherdag.algorithms.parameters import grouped

DATA = ("alarm", "insurance", "win95pts", "linear-10", "linear-20", "linear-50")
SIZES = (0, 1, 2, 3, 4, 5)
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--data", nargs="+", default=list(DATA))
    options.add_argument("--sites", type=int, default=10)
    options.add_argument("--samples", type=int, default=3)
    arguments = options.parse_args()
    cases = []
    for name in arguments.data:
        drawn = [draw(name, arguments.folder, number) for number in range(arguments.samples)]
        layers = [
            [skeleton(sample, k, arguments.sites, max_cond_size=size) for size in SIZES]
            for k, sample in enumerate(drawn)
        ]
        shares = [
            [skeleton(sample, k, arguments.sites, vote_share=share) for share in SHARES]
            for k, sample in enumerate(drawn)
        ]
        cases.append(
            {
                "data": name,
                "edges": [median(e for e, _ in own) for own in zip(*layers, strict=True)],
                "shd": [median(wrong for _, wrong in own) for own in zip(*shares, strict=True)],
            }
        )
        print(cases[-1], flush=True)
        figures = {"sites": arguments.sites, "samples": arguments.samples, "cases": cases}
        write_report(arguments.out, "fedpc_figures", figures, markdown)


def skeleton(sample, seed: int, sites: int, **parameters) -> tuple[int, int]:
    """Edges of the skeleton, and how many it has too many or too few."""
    data, schema, truth = sample
    federation = Federation.split(
        data, sites, seed=seed, schema=schema, policy=policy("vote"), device="cpu"
    )
    found = federation.run(
        FedPC(**grouped(FedPC, {"evidence": "vote", **parameters})), seed=seed
    ).finding.graph
    own, true = (
        {frozenset((edge.source, edge.target)) for edge in graph.edges} for graph in (found, truth)
    )
    return len(own), len(own ^ true)


def markdown(report: dict) -> str:
    """Both figures as tables."""
    layers = [[case["data"], *map(_whole, case["edges"])] for case in report["cases"]]
    shares = [[case["data"], *map(_whole, case["shd"])] for case in report["cases"]]
    return "\n".join(
        [
            f"Votes of {report['sites']} sites, medians of {report['samples']} samples.",
            "",
            "Edges of the skeleton, by the largest conditioning set (Figure 7):",
            "",
            *table(["data", *map(str, SIZES)], layers),
            "",
            "SHD of the skeleton, by the share of the sites that an edge needs (Figure 8):",
            "",
            *table(["data", *(f"{share:.0%}" for share in SHARES)], shares),
            "",
        ]
    )


def _whole(value: float) -> str:
    return f"{value:.12g}"


if __name__ == "__main__":
    main()
