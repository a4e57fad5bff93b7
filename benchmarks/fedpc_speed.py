"""Whole FedPC runs in one process: what protections cost, how fast peers are, and how it grows.

    python benchmarks/fedpc_speed.py benchmarks/data/alarm_5000.csv.gz --truth alarm_edges.csv

Three parts, in one run on one machine:

- votes under every protection; they take turns, so that ratios hold when the machine drifts;
- PC on the pooled evidence of all sites under masking, beside other packages' PC on the same rows
  at one place in the clear (`pc_peers`; R's run with the start of R), and the memory that each adds
  in a fresh process; a package that is not here is named. alpha 0.01, sets of up to 3;
- Gaussian models of --variables under masking, each in a fresh process, with its peak memory.

Processor seconds are of the process (and R's of none), for machines that are shared.
"""

from __future__ import annotations

import multiprocessing
import statistics
from pathlib import Path

import numpy as np
import pandas as pd
from ci_tests import linear_gaussian, read_codes
from markdown_table import table
from measuring import PROTECTIONS, bytes_per_site, parser, peak_mb, timed, write_report
from pc_peers import PEERS, PeerMissingError

from cipherdag import CausalGraph, Federation, FedPC, Policy
from cipherdag.algorithms.fedpc.algorithm import Voting

OPEN = Policy(min_cell_size=0, max_values=2**53)
ALPHA, LARGEST = 0.01, 3
ROWS, DEGREE = 5000, 3.0
PROTECTED_COLUMNS = ("protection", "seconds", "x none", "rounds", "MB per site")
PEER_COLUMNS = (
    "PC by", "seconds", "processor seconds", "x ours", "MB", "edges", "differ from ours", "wrong",
)  # fmt: skip
MODEL_COLUMNS = (
    "variables", "sepset", "seconds", "CPU s", "rounds", "tests", "MB sent", "peak MB", "MB before",
)  # fmt: skip
SEARCH_BEYOND = 300
"""Variables beyond which separating sets come from the skeleton's search (`sepset="search"`)."""


def main() -> None:
    arguments = parse()
    report = {
        "data": arguments.data.name,
        "sites": arguments.sites,
        "sepset": arguments.sepset,
        "seed": arguments.seed,
        "repeats": arguments.repeats,
    }
    report |= protections(arguments)
    report["peers"] = peers(arguments)
    report["gaussian"] = [gaussian(variables, arguments) for variables in arguments.variables]
    write_report(arguments.out, "fedpc_speed", report, markdown)


def protections(arguments) -> dict:
    """Votes under every protection, in turns."""
    runs: dict[str, list[float]] = {protection: [] for protection in PROTECTIONS}
    last = {}
    for repeat in range(arguments.repeats + 1):
        for protection in PROTECTIONS:
            federation = Federation.split(
                arguments.data, arguments.sites, seed=arguments.seed, protection=protection
            )
            last[protection] = federation.run(
                FedPC(evidence="vote", voting=Voting(sepset=arguments.sepset))
            )
            if repeat:  # the first turn warms up
                runs[protection].append(last[protection].seconds)
    found = {
        "same_graph": len({result.finding.graph for result in last.values()}) == 1,
        "protections": {name: figures(runs, last, name) for name in PROTECTIONS},
    }
    if arguments.truth is not None:
        found["shd"] = last["masking"].finding.metrics(read_truth(arguments, last["masking"])).shd
    for name, figure in found["protections"].items():
        print(
            f"votes, {name:8} {figure['median_seconds']:7.2f} s  {figure['ratio_to_none']:5.2f} x "
            f"none  {figure['rounds']} rounds  {figure['bytes_per_site'] / 1e6:.2f} MB per site"
        )
    print(f"same graph: {found['same_graph']}   SHD: {found.get('shd', 'no truth given')}")
    return found


def figures(runs, last, name):
    """Median, range and ratio of one protection, and what it cost."""
    ratios = [own / none for own, none in zip(runs[name], runs["none"], strict=True)]
    return {
        "median_seconds": statistics.median(runs[name]),
        "seconds": runs[name],
        "ratio_to_none": statistics.median(ratios),
        "rounds": len(last[name].rounds),
        "bytes_per_site": bytes_per_site(last[name]),
    }


def peers(arguments) -> dict:
    """PC on the same rows by us, from sums under masking, and by every peer; they take turns.

    Peers keep the set that separated a pair first, as ``sepset=search`` does; our default tests
    all candidates once more for the one of largest p.
    """
    names, codes, runners = contestants(arguments.data, arguments.sites, arguments.seed)
    ours = next(iter(runners))
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in runners}
    kept, missing = {}, {}
    for repeat in range(arguments.repeats + 1):
        for name, run in runners.items():
            if name in missing or (name in PEERS and repeat > arguments.peer_repeats):
                continue
            try:
                wall, cpu, kept[name] = timed(run, codes, ALPHA, LARGEST)
            except PeerMissingError as error:
                missing[name] = str(error)
                print(f"PC, {name}: {error}")
            else:
                if repeat:  # the first turn warms up
                    taken[name].append((wall, cpu))
    truth = None if arguments.truth is None else read_skeleton(arguments, names)
    found = {name: peer_figures(taken[name], kept[name], kept[ours], truth) for name in kept}
    for name, figure in found.items():
        figure["times_ours"] = figure["median_seconds"] / found[ours]["median_seconds"]
        figure["added_mb"] = in_fresh_process(added_mb, arguments, name)
        print(
            f"PC, {name}: {figure['median_seconds']:.2f} s, {figure['median_cpu_seconds']:.2f} s "
            f"of processor, {figure['times_ours']:.1f} x ours, edges that differ from ours "
            f"{figure['edges_that_differ']}, wrong {figure.get('wrong_edges', '?')}, "
            f"{figure['added_mb']:.0f} MB of memory"
        )
    return {"alpha": ALPHA, "max_cond_size": LARGEST, "runs": found, "missing": missing}


def contestants(data: Path, sites: int, seed: int) -> tuple:
    """Names of the variables, codes in their order, and what learns a skeleton; ours first."""
    federation = Federation.split(data, sites, seed=seed, policy=OPEN, device="cpu")
    names = federation.sites[0].table.names
    columns = pd.read_csv(data, nrows=0).columns
    codes = read_codes(data)[:, [columns.get_loc(name) for name in names]]

    def own(sepset):
        def run(_, alpha, largest):
            voting = Voting(sepset=sepset)
            algorithm = FedPC(evidence="pooled", alpha=alpha, max_cond_size=largest, voting=voting)
            return federation.run(algorithm).finding.graph.skeleton()

        return run

    ours = f"cipherdag, {sites} sites, masking"
    return names, codes, {ours: own("search"), f"{ours}, sepset=max": own("max"), **PEERS}


def added_mb(arguments, name: str) -> float:
    """Memory that a contestant adds to a process that has the rows, imports included."""
    _, codes, runners = contestants(arguments.data, arguments.sites, arguments.seed)
    before = peak_mb()
    runners[name](codes, ALPHA, LARGEST)
    return peak_mb() - before


def in_fresh_process(function, *arguments):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def peer_figures(taken, kept, ours, truth) -> dict:
    figure = {
        "median_seconds": statistics.median(wall for wall, _ in taken),
        "seconds": [wall for wall, _ in taken],
        "median_cpu_seconds": statistics.median(cpu for _, cpu in taken),
        "edges": int(kept.sum()) // 2,
        "edges_that_differ": int((kept != ours).sum()) // 2,
    }
    if truth is not None:
        figure["wrong_edges"] = int((kept != truth).sum()) // 2
    return figure


def gaussian(variables: int, arguments) -> dict:
    """Pooled evidence on a Gaussian model under masking, in a process of its own."""
    found = in_fresh_process(
        gaussian_here, variables, arguments.sites, arguments.gaussian_repeats, arguments.seed
    )
    print(
        f"Gaussian, {variables} variables, {arguments.sites} sites, masking, {found['sepset']}: "
        f"{found['median_seconds']:.2f} s, {found['median_cpu_seconds']:.2f} s of processor, "
        f"{found['rounds']} rounds, {found['tests']} tests, {found['bytes_per_site'] / 1e6:.1f} MB "
        f"per site, peak memory {found['peak_mb']:.0f} MB (before the run {found['before_mb']:.0f})"
    )
    return found


def gaussian_here(variables: int, sites: int, repeats: int, seed: int) -> dict:
    values = linear_gaussian(
        rows=ROWS, variables=variables, degree=DEGREE, rng=np.random.default_rng(seed)
    )
    data = pd.DataFrame(values, columns=[f"v{k:04d}" for k in range(variables)])
    federation = Federation.split(data, sites, seed=seed, policy=OPEN, device="cpu")
    before = peak_mb()
    sepset = "max" if variables <= SEARCH_BEYOND else "search"
    runs = [
        timed(federation.run, FedPC(evidence="pooled", voting=Voting(sepset=sepset)))
        for _ in range(repeats)
    ]
    result = runs[-1][2]
    return {
        "variables": variables,
        "rows": ROWS,
        "degree": DEGREE,
        "sites": sites,
        "sepset": sepset,
        "median_seconds": statistics.median(run[0] for run in runs),
        "seconds": [run[0] for run in runs],
        "median_cpu_seconds": statistics.median(run[1] for run in runs),
        "rounds": len(result.rounds),
        "tests": sum(result.finding.details["tests"].values()),
        "bytes_per_site": bytes_per_site(result),
        "before_mb": before,
        "peak_mb": peak_mb(),
    }


def read_truth(arguments, result) -> CausalGraph:
    text = arguments.truth.read_text("utf-8")
    return CausalGraph.from_csv(text, nodes=result.finding.graph.nodes)


def read_skeleton(arguments, names):
    return CausalGraph.from_csv(arguments.truth.read_text("utf-8"), nodes=names).skeleton()


def markdown(report: dict) -> str:
    """The three parts as tables."""
    protected = [
        [name, f"{own['median_seconds']:.2f}", f"{own['ratio_to_none']:.2f}", own["rounds"],
         f"{own['bytes_per_site'] / 1e6:.2f}"]
        for name, own in report["protections"].items()
    ]  # fmt: skip
    by_peers = [
        [name, f"{own['median_seconds']:.2f}", f"{own['median_cpu_seconds']:.2f}",
         f"{own['times_ours']:.1f}", f"{own['added_mb']:.0f}", own["edges"],
         own["edges_that_differ"], own.get("wrong_edges", "-")]
        for name, own in report["peers"]["runs"].items()
    ]  # fmt: skip
    models = [
        [own["variables"], own["sepset"], f"{own['median_seconds']:.2f}",
         f"{own['median_cpu_seconds']:.2f}", own["rounds"], own["tests"],
         f"{own['bytes_per_site'] / 1e6:.1f}", f"{own['peak_mb']:.0f}", f"{own['before_mb']:.0f}"]
        for own in report["gaussian"]
    ]  # fmt: skip
    lines = [
        f"`{report['data']}`, {report['sites']} sites, votes, median of {report['repeats']} runs:",
        "",
        *table(PROTECTED_COLUMNS, protected),
        "",
        "PC on the same rows: ours from sums over sites, the others with all rows at one place.",
        "",
        *table(PEER_COLUMNS, [*by_peers, *report["peers"]["missing"].items()]),
        "",
        f"Gaussian models, {ROWS} rows over {report['sites']} sites, pooled evidence, masking:",
        "",
        *table(MODEL_COLUMNS, models),
    ]
    return "\n".join(lines) + "\n"


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("data", type=Path)
    options.add_argument("--truth", type=Path)
    options.add_argument("--sites", type=int, default=10)
    options.add_argument("--sepset", choices=["max", "mean", "vote"], default="max")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--peer-repeats", type=int, default=3)
    options.add_argument("--variables", nargs="*", type=int, default=[300, 1000])
    options.add_argument("--gaussian-repeats", type=int, default=3)
    return options.parse_args()


if __name__ == "__main__":
    main()
