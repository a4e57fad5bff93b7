"""FedPC's evidence where sites are alike, and where a share of the tables is every site's own.

    python benchmarks/sites_that_differ.py DATA_FOLDER --lines differ.jsonl --out differ

DATA_FOLDER is what `fedpc_data` reads. 5000 rows of a network are drawn anew for every sample (seed
= its number) and split unevenly. With a share, each site draws its rows from a network of the same
graph, in which it has own conditional tables for that share of the variables, uniform on the
simplex; which variables is the same at all sites. `bits` is FedPC's default, `sums` the same test
with its sums opened. Sites allow every count. Medians over the samples, per network, share, number
of sites and kind of evidence. Finished cases are in --lines.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from bif import read_bif
from fedpc_data import NETWORKS, ROWS
from fedpc_tables import policy
from markdown_table import table
from measuring import add_line, bytes_per_site, parser, read_lines, timed, write_report

from cipherdag import Federation, FedPC, Schema
from cipherdag.federation.site import split_rows
from cipherdag.sites.table.column import Column

EVIDENCE = {
    "bits": FedPC(),
    "sums": FedPC(reveal="sums"),
    **{own: FedPC(evidence=own) for own in ("pooled", "vote")},
}
FIGURES = (
    "shd_cpdag", "shd", "wrong", "arrows", "extra", "missing", "cpu_seconds", "rounds",
    "bytes_per_site",
)  # fmt: skip


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--lines", type=Path, required=True, help="finished cases, JSON lines")
    options.add_argument("--data", nargs="+", choices=NETWORKS, default=["alarm", "insurance"])
    options.add_argument("--sites", type=int, nargs="+", default=[3, 5, 10, 15])
    options.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.2, 0.5])
    options.add_argument("--evidence", nargs="+", choices=EVIDENCE, default=list(EVIDENCE))
    options.add_argument("--samples", type=int, default=5)
    arguments = options.parse_args()
    cases = read_lines(arguments.lines)
    done = {key(case) for case in cases}
    for case in planned(arguments):
        if key(case) not in done:
            cases.append(case | measured(case, arguments.folder))
            add_line(arguments.lines, cases[-1])
            print(cases[-1], flush=True)
    write_report(arguments.out, "sites_that_differ", {"cases": summary(cases)}, markdown)


def planned(arguments) -> list[dict]:
    """All cases, those of one network, share and sample together."""
    return [
        {"data": name, "share": share, "sites": sites, "evidence": evidence, "sample": number}
        for name in arguments.data
        for share in arguments.shares
        for number in range(arguments.samples)
        for sites in arguments.sites
        for evidence in arguments.evidence
    ]


def key(case: dict) -> tuple:
    return tuple(case[own] for own in ("data", "share", "sites", "evidence", "sample"))


def measured(case: dict, folder: Path) -> dict:
    """The figures of one run."""
    network = read_bif(folder / "bn" / f"{case['data']}.bif.gz", numbered=True)
    columns = [
        Column(own, "discrete", categories=network.categories[own], allow_constant=True)
        for own in network.names
    ]
    federation = Federation.simulate(
        rows_of_sites(network, case),
        schema=Schema(tuple(columns)),
        policy=policy("pooled"),
        device="cpu",
    )
    wall, cpu, result = timed(federation.run, EVIDENCE[case["evidence"]], seed=case["sample"])
    truth = network.graph
    arrows, true = set(result.finding.graph.directed), set(truth.directed)
    far = result.finding.metrics_cpdag(truth)
    return {
        "shd_cpdag": far.shd,
        "extra": far.extra,
        "missing": far.miss,
        "shd": result.finding.metrics(truth).shd,
        "wrong": sum((effect, cause) in true for cause, effect in arrows),
        "arrows": len(arrows),
        "seconds": wall,
        "cpu_seconds": cpu,
        "rounds": len(result.rounds),
        "bytes_per_site": bytes_per_site(result),
        "tests": dict(result.finding.details.get("tests", {})),
    }


def rows_of_sites(network, case: dict) -> dict:
    """The tables of the sites, by name."""
    rng = np.random.default_rng(case["sample"])
    if not case["share"]:
        data = network.sample(ROWS, rng)
        # the very split of fedpc_tables and colliders
        split = np.random.default_rng(case["sample"])
        parts = split_rows(ROWS, case["sites"], rng=split)
        return {f"site{k + 1}": data.iloc[rows] for k, rows in enumerate(parts)}
    own = rng.permutation(network.names)[: round(case["share"] * len(network.names))]
    rng = np.random.default_rng((case["sample"], case["sites"]))
    sizes = [len(rows) for rows in split_rows(ROWS, case["sites"], rng=rng)]
    return {
        f"site{k + 1}": with_own_tables(network, own, rng).sample(size, rng)
        for k, size in enumerate(sizes)
    }


def with_own_tables(network, names, rng):
    """The network with tables drawn anew, every row uniform on the simplex."""
    tables = dict(network.tables)
    for name in names:
        shape = tables[name].shape
        tables[name] = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
    return replace(network, tables=tables)


def summary(cases: list[dict]) -> list[dict]:
    """Medians over the samples."""
    groups: dict[tuple, list[dict]] = {}
    for case in cases:
        groups.setdefault(key(case)[:-1], []).append(case)
    names = ("data", "share", "sites", "evidence")
    return [
        dict(zip(names, group, strict=True))
        | {"samples": len(own)}
        | {name: median(case[name] for case in own) for name in FIGURES}
        | {"all_shd_cpdag": sorted(case["shd_cpdag"] for case in own)}
        for group, own in sorted(groups.items())
    ]


def markdown(report: dict) -> str:
    """One row per network, share and number of sites: CPDAG SHD (extra edges) by evidence."""
    cases = report["cases"]
    kinds = [own for own in EVIDENCE if any(case["evidence"] == own for case in cases)]
    places = sorted({(case["data"], case["share"], case["sites"]) for case in cases})
    found = {(*key(case | {"sample": 0})[:-1],): case for case in cases}
    rows = [
        [
            name,
            f"{share:.0%}",
            sites,
            *(cell(found.get((name, share, sites, kind))) for kind in kinds),
        ]
        for name, share, sites in places
    ]
    return "\n".join([*table(["network", "own tables", "sites", *kinds], rows), ""])


def cell(case: dict | None) -> str:
    """CPDAG SHD (extra edges)."""
    return "-" if case is None else f"{case['shd_cpdag']:g} ({case['extra']:g})"


if __name__ == "__main__":
    main()
