"""Arrows of the documents' own examples against the true graph, over many draws of their data.

    python benchmarks/arrows.py --seeds 50 --out benchmarks/results/arrows

`readme` is the data of README's Python example and of both tutorials: 6000 rows of ASIA, of which
three sites have 2500, 1500 and 2000. `demo` is that of `cipherdag demo`: as many rows, split
unevenly by the seed. Seed 1 is the one that the documents draw. Each draw is learnt by FedPC's
default and by votes, the paper's method. An arrow is wrong if the true DAG has it the other way
round or does not join the two; skeletons are compared by extra and missing edges, CPDAGs by SHD.
"""

from __future__ import annotations

from statistics import mean, median, stdev
from typing import TYPE_CHECKING

import numpy as np
from markdown_table import table
from measuring import parser, write_report

from cipherdag import Federation, FedPC
from cipherdag.graphs.networks import asia

if TYPE_CHECKING:
    import pandas as pd

    from cipherdag import CausalGraph, LearntGraph

SHOWN = 1
"""The seed of the documents."""
ROWS = 6000
EVIDENCE = ("auto", "vote")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=50, help="draws, by the seeds from 1")
    options.add_argument("--data", nargs="+", choices=SPLITS, default=list(SPLITS))
    arguments = options.parse_args()
    network, cases = asia(), []
    for seed in range(SHOWN, SHOWN + arguments.seeds):
        patients = network.sample(ROWS, np.random.default_rng(seed))
        for name in arguments.data:
            federation = SPLITS[name](patients, seed)
            for evidence in EVIDENCE:
                found = federation.run(FedPC(alpha=0.01, evidence=evidence), seed=seed)
                case = {"data": name, "seed": seed, "evidence": evidence}
                cases.append(case | measured(found.finding, network.graph))
                print(cases[-1], flush=True)
    report = {"cases": cases}
    print(markdown(report))
    write_report(arguments.out, "arrows", report, markdown)


def three_files(patients: pd.DataFrame, _seed: int) -> Federation:
    """The sites of README and of the tutorials, whatever the seed."""
    own = {"north": patients[:2500], "south": patients[2500:4000], "west": patients[4000:]}
    return Federation.simulate(own, device="cpu")


def uneven(patients: pd.DataFrame, seed: int) -> Federation:
    """The sites of `cipherdag demo`."""
    return Federation.split(patients, 3, seed=seed, device="cpu")


SPLITS = {"readme": three_files, "demo": uneven}


def measured(found: LearntGraph, truth: CausalGraph) -> dict:
    """Wrong arrows by kind, and both distances."""
    arrows, true = found.graph.directed, set(truth.directed)
    joined = true | {(effect, cause) for cause, effect in true}
    skeleton = {frozenset(edge) for edge in (*found.graph.directed, *found.graph.undirected)}
    true_skeleton = {frozenset(edge) for edge in true}
    return {
        "arrows": len(arrows),
        "turned": [list(own) for own in arrows if own in joined - true],
        "beside": [list(own) for own in arrows if own not in joined],
        "extra": len(skeleton - true_skeleton),
        "missing": len(true_skeleton - skeleton),
        "shd_cpdag": found.metrics_cpdag(truth).shd,
        "tests": found.details.get("tests", {}),
    }


def markdown(report: dict) -> str:
    """One row per data and kind of evidence."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for case in report["cases"]:
        groups.setdefault((case["data"], case["evidence"]), []).append(case)
    columns = (
        "data",
        "evidence",
        "wrong of arrows drawn",
        "turned round, no edge there",
        "draws with a wrong arrow",
        "SHD of skeletons",
        "SHD of CPDAGs",
        f"seed {SHOWN}: wrong, skeleton, CPDAG",
    )
    rows = [[data, NAMES[evidence], *summary(own)] for (data, evidence), own in groups.items()]
    return "\n".join([*table(columns, rows), ""])


NAMES = {"auto": "default", "vote": "votes"}


def summary(cases: list[dict]) -> list[str]:
    """The cells of one row."""
    turned, beside = (sum(len(own[kind]) for own in cases) for kind in ("turned", "beside"))
    arrows = sum(own["arrows"] for own in cases)
    share = (turned + beside) / arrows if arrows else 0.0
    shown = next(own for own in cases if own["seed"] == SHOWN)
    return [
        f"{turned + beside} of {arrows} ({share:.1%})",
        f"{turned}, {beside}",
        f"{sum(wrong(own) > 0 for own in cases)} of {len(cases)}",
        spread([skeleton_shd(own) for own in cases]),
        spread([own["shd_cpdag"] for own in cases]),
        f"{wrong(shown)}, {skeleton_shd(shown)}, {shown['shd_cpdag']}",
    ]


def wrong(case: dict) -> int:
    return len(case["turned"]) + len(case["beside"])


def skeleton_shd(case: dict) -> int:
    return case["extra"] + case["missing"]


def spread(numbers: list[int]) -> str:
    """Median, and mean with standard deviation."""
    deviation = stdev(numbers) if len(numbers) > 1 else 0.0
    return f"{median(numbers):g} ({mean(numbers):.2f} ± {deviation:.2f})"


if __name__ == "__main__":
    main()
