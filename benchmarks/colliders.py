"""FedPC's rules for colliders: CPDAGs, DAGs and arrows on networks and linear models, ten sites.

    python benchmarks/colliders.py DATA_FOLDER --data alarm insurance --samples 5 --out colliders

DATA_FOLDER is what `fedpc_data` reads; further networks are read from bn/<network>.bif.gz. Every
sample of 5000 rows is drawn anew and split unevenly over the sites. Sites allow every count, so
that `pooled` is PC on all rows; not so with ``--counts default``, as decision 45 has `stratified`
by ``--rules p_value_drop``. Prints and writes, per data set and kind of evidence, the medians
of every rule, and over all samples how many arrows agree with and contradict the true DAG's. With
``--distance`` also how many effects the CPDAG would have wrong (`adjustment_distance`).
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from fedpc_data import draw
from fedpc_tables import policy
from markdown_table import table
from measuring import parser, write_report

from cipherdag import Federation, FedPC

RULES = ("sepset", "conservative", "majority", "p_value_drop")
DATA = ("alarm", "insurance", "child", "hailfinder", "asia", "win95pts", "linear-20", "linear-50")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--data", nargs="+", default=list(DATA))
    options.add_argument("--evidence", nargs="+", default=["pooled", "fisher"])
    options.add_argument("--rules", nargs="+", default=list(RULES), choices=RULES)
    options.add_argument("--counts", choices=("allowed", "default"), default="allowed")
    options.add_argument("--distance", action="store_true")
    options.add_argument("--sites", type=int, default=10)
    options.add_argument("--samples", type=int, default=5)
    arguments = options.parse_args()
    cases = []
    for name in arguments.data:
        samples = [draw(name, arguments.folder, number) for number in range(arguments.samples)]
        for evidence in arguments.evidence:
            sites, allowed = arguments.sites, arguments.counts == "allowed"
            found = {
                rule: measured(
                    samples, evidence, rule, sites, allowed=allowed, distance=arguments.distance
                )
                for rule in arguments.rules
            }
            cases.append({"data": name, "evidence": evidence, "rules": found})
            print(name, evidence, found, flush=True)
            write_report(arguments.out, "colliders", {"cases": cases}, markdown)


def measured(
    samples, evidence: str, rule: str, sites: int, *, allowed: bool, distance: bool = False
) -> dict:
    """Medians of SHD, and of effects that are wrong; arrows of all samples."""
    runs = []
    for seed, (data, schema, truth) in enumerate(samples):
        own = {"policy": policy("pooled")} if allowed else {}
        federation = Federation.split(data, sites, seed=seed, schema=schema, device="cpu", **own)
        found = federation.run(FedPC(evidence=evidence, colliders=rule), seed=seed)
        arrows, true = set(found.finding.graph.directed), set(truth.directed)
        runs.append(
            {
                "shd_cpdag": found.finding.metrics_cpdag(truth).shd,
                "shd": found.finding.metrics(truth).shd,
                "right": len(arrows & true),
                "wrong": sum((effect, cause) in true for cause, effect in arrows),
            }
        )
        if distance:
            from adjustment_distance import adjustment_distance

            runs[-1]["aid"] = adjustment_distance(found.finding.graph, truth)
            runs[-1]["pairs"] = len(truth.nodes) * (len(truth.nodes) - 1)
    shown = ("shd_cpdag", "shd", *(("aid", "pairs") if distance else ()))
    medians = {name: median(own[name] for own in runs) for name in shown}
    return medians | {name: sum(own[name] for own in runs) for name in ("right", "wrong")}


def markdown(report: dict) -> str:
    """One row per data set and kind of evidence."""
    rows = [
        [
            case["data"],
            case["evidence"],
            *(
                f"{own['shd_cpdag']:g} ({own['shd']:g}), {own['wrong']} of "
                f"{own['wrong'] + own['right']}"
                + (f"; {own['aid']:g} of {own['pairs']:g}" if "aid" in own else "")
                for own in case["rules"].values()
            ),
        ]
        for case in report["cases"]
    ]
    return "\n".join([*table(["data", "evidence", *report["cases"][0]["rules"]], rows), ""])


if __name__ == "__main__":
    main()
