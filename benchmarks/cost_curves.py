"""What a FedPC run costs as it grows: seconds, rounds and bytes over variables, rows and sites.

    python benchmarks/cost_curves.py alarm.bif.gz --out benchmarks/results/cost_curves

One thing grows at a time, from 10 sites, 5000 rows and masking: variables of sparse linear Gaussian
models (3 neighbours each); rows and sites of ALARM (37 discrete variables); and, on ALARM, the
protections and the kinds of evidence. Every case runs in this process, after one run that warms
up; processor seconds are those of all sites and the coordinator together, so a site's share is
about that over the sites.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from bif import read_bif
from ci_tests import linear_gaussian
from markdown_table import table
from measuring import bytes_per_site, parser, timed, write_report

from cipherdag import Federation, FedPC, Policy, Schema
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.sites.table.column import Column

ROWS, SITES, DEGREE = 5000, 10, 3.0
VARIABLES = (37, 100, 300, 1000)
ROW_COUNTS = (1000, 5000, 20_000, 100_000)
SITE_COUNTS = (3, 10, 30, 100)
SITE_ROWS = 20_000
VOTES_UP_TO = 300
"""Variables up to which votes run; their separating sets take minutes beyond."""
KINDS = {
    "vote": FedPC(evidence="vote"),
    "fisher": FedPC(evidence="fisher", voting=Voting(sepset="search")),
    "pooled": FedPC(evidence="pooled", voting=Voting(sepset="search")),
}
EVIDENCE = {
    "vote": FedPC(evidence="vote"),
    "vote, reference code": FedPC(evidence="vote", voting=Voting(reference="code")),
    **{kind: FedPC(evidence=kind) for kind in ("weighted_p", "fisher", "pooled")},
}
TITLES = {
    "variables": f"Variables (Gaussian, {ROWS} rows, {SITES} sites, masking)",
    "rows": f"Rows (ALARM, {SITES} sites, masking)",
    "sites": f"Sites (ALARM, {SITE_ROWS} rows, masking)",
    "protection": f"Protections (ALARM, {ROWS} rows, {SITES} sites)",
    "kind": f"Kinds of evidence with `sepset=max` (ALARM, {ROWS} rows, {SITES} sites, masking)",
}


def main() -> None:
    arguments = parse()
    network = read_bif(arguments.network, numbered=True)
    columns = [
        Column(own, "discrete", categories=network.categories[own], allow_constant=True)
        for own in network.names
    ]
    alarm = Schema(tuple(columns))

    def rows_of(count):
        return network.sample(count, np.random.default_rng(arguments.seed)), alarm

    for kind in KINDS.values():
        measured(*rows_of(1000), kind, arguments.seed)  # warms up
    cases = []
    for curve, setting, kind, run in planned(rows_of, arguments.seed):
        own = {"curve": curve, curve: setting, "evidence": kind} | run()
        cases.append(own)
        print(
            f"{curve:10} {setting:>20}  {kind:9} {own['seconds']:6.2f} s  "
            f"{own['cpu_seconds']:6.2f} s of processor  {own['rounds']:2} rounds  "
            f"{own['bytes_per_site'] / 1e6:7.2f} MB",
            flush=True,
        )
    figures = {"seed": arguments.seed, "cases": cases}
    write_report(arguments.out, "cost_curves", figures, markdown)


def planned(rows_of, seed: int):
    """All cases: (curve, setting, evidence, what measures it)."""
    for variables in VARIABLES:
        kinds = {k: own for k, own in KINDS.items() if k != "vote" or variables <= VOTES_UP_TO}
        yield from case("variables", variables, kinds, (gaussian(variables, seed), None), seed)
    for count in ROW_COUNTS:
        yield from case("rows", count, KINDS, rows_of(count), seed)
    sample = rows_of(SITE_ROWS)
    for sites in SITE_COUNTS:
        yield from case("sites", sites, KINDS, sample, seed, sites=sites)
    sample = rows_of(ROWS)
    for protection in ("none", "masking", "bfv"):
        yield from case("protection", protection, KINDS, sample, seed, protection=protection)
    for kind, algorithm in EVIDENCE.items():
        yield from case("kind", kind, {"each": algorithm}, sample, seed)


def case(curve: str, setting, kinds, sample, seed: int, **options):
    """The cases of one setting, one for each kind of evidence."""
    for kind, algorithm in kinds.items():
        yield curve, setting, kind, partial(measured, *sample, algorithm, seed, **options)


def gaussian(variables: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = linear_gaussian(rows=ROWS, variables=variables, degree=DEGREE, rng=rng)
    return pd.DataFrame(values, columns=[f"v{k:04d}" for k in range(variables)])


def measured(data, schema, algorithm, seed: int, *, sites=SITES, protection="masking") -> dict:
    """One run; splitting and checking the table are not timed."""
    federation = Federation.split(
        data,
        sites,
        seed=seed,
        schema=schema,
        protection=protection,
        policy=Policy(min_cell_size=0, max_values=2**53, allow_unprotected=protection == "none"),
        device="cpu",
    )
    _, cpu, result = timed(federation.run, algorithm)
    return {
        "seconds": result.seconds,
        "cpu_seconds": cpu,
        "rounds": len(result.rounds),
        "bytes_per_site": bytes_per_site(result),
        "edges": len(result.finding.graph.edges),
    }


def markdown(report: dict) -> str:
    """One table per curve."""
    lines = []
    for curve, title in TITLES.items():
        own = [case for case in report["cases"] if case["curve"] == curve]
        kinds = list(dict.fromkeys(case["evidence"] for case in own))
        rows = []
        for setting in dict.fromkeys(case[curve] for case in own):
            found = {case["evidence"]: case for case in own if case[curve] == setting}
            rows.append([setting, *(cell(found.get(kind)) for kind in kinds)])
        lines += [f"{title}: seconds; processor seconds; rounds; MB per site.", ""]
        lines += [*table([curve, *kinds], rows), ""]
    return "\n".join(lines)


def cell(case) -> str:
    if case is None:
        return "-"
    return (
        f"{case['seconds']:.1f} s; {case['cpu_seconds']:.1f} s; {case['rounds']}; "
        f"{case['bytes_per_site'] / 1e6:.2f} MB"
    )


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("network", type=Path, help="ALARM's .bif or .bif.gz")
    return options.parse_args()


if __name__ == "__main__":
    main()
