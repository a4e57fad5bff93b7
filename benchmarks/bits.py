"""What one bit a test costs beside sums and votes, and how near the graphs are to the truth.

    python benchmarks/bits.py DATA/bn --networks alarm insurance

DATA/bn holds networks as BIF. Rows are drawn from each network, once per sample, and split over the
sites. Of every way of testing the table has the mean structural Hamming distance to the CPDAG of
the true graph, how many edges are missing and extra, and medians of the processor seconds of all
parties in one process, the rounds, and the bytes that the site sends which sends most, and the one
in the middle. All runs are under masking. In turns with them causal-learn's PC runs with G2 on all
rows at one place: its processor seconds.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
from bif import read_bif
from markdown_table import table
from measuring import parser, timed, write_report
from pc_peers import causal_learn

from cipherdag import Federation, FedPC, Policy

WAYS = {
    "bits (default)": FedPC(),
    "sums": FedPC(reveal="sums"),
    "votes, bits": FedPC(evidence="vote", reveal="bits"),
    "votes, sums": FedPC(evidence="vote"),
}


PEER = "nothing: causal-learn, all rows at one place"


def compared(name, network, arguments):
    """Every way over the same rows, samples in turns."""
    found = {way: [] for way in (*WAYS, PEER)}
    policy = Policy(reveal="sums")
    for sample in range(arguments.samples):
        rows = network.sample(arguments.rows, np.random.default_rng(arguments.seed + sample))
        federation = Federation.split(
            rows, arguments.sites, seed=arguments.seed + sample, policy=policy, device="cpu"
        )
        federation.run(FedPC(max_cond_size=0))  # caches of the first run are not measured
        for way, algorithm in WAYS.items():
            _, seconds, result = timed(federation.run, algorithm, seed=arguments.seed)
            sent = sorted(result.bytes_sent_per_site.values())
            far = result.metrics_cpdag(network.graph)
            found[way].append(
                {
                    "shd": far.shd,
                    "missing": far.miss,
                    "extra": far.extra,
                    "seconds": seconds,
                    "rounds": len(result.rounds),
                    "most_bytes": sent[-1],
                    "median_bytes": statistics.median(sent),
                }
            )
        codes = rows.apply(lambda own: own.astype("category").cat.codes).to_numpy()
        default = WAYS["bits (default)"]
        _, seconds, _ = timed(causal_learn, codes, default.alpha, default.max_cond_size)
        found[PEER].append({"seconds": seconds})
    return [{"network": name, "way": way, "samples": own} for way, own in found.items()]


def markdown(report):
    """A row for every network and way."""
    rows = []
    for case in report["cases"]:
        each = {key: [own[key] for own in case["samples"]] for key in case["samples"][0]}
        rows.append([case["network"], case["way"], *(shown(each) for shown in COLUMNS.values())])
    return "\n".join(table(["network", "opened", *COLUMNS], rows)) + "\n"


def mean_of(key):
    return lambda each: f"{statistics.mean(each[key]):.1f}" if key in each else ""


def median_of(key, digits, unit=1.0):
    return lambda each: f"{statistics.median(each[key]) / unit:.{digits}f}" if key in each else ""


COLUMNS = {
    "SHD (CPDAG)": mean_of("shd"),
    "missing": mean_of("missing"),
    "extra": mean_of("extra"),
    "processor s": median_of("seconds", 1),
    "rounds": median_of("rounds", 0),
    "MB, most": median_of("most_bytes", 2, 1e6),
    "MB, middle": median_of("median_bytes", 2, 1e6),
}


def main() -> None:
    options = parser(__doc__, seed=0)
    options.add_argument("folder", type=Path)
    options.add_argument("--networks", nargs="+", default=["alarm", "insurance"])
    options.add_argument("--rows", type=int, default=5000)
    options.add_argument("--sites", type=int, default=10)
    options.add_argument("--samples", type=int, default=5)
    arguments = options.parse_args()
    cases = []
    for name in arguments.networks:
        network = read_bif(arguments.folder / f"{name}.bif.gz")
        cases += compared(name, network, arguments)
    about = {own: getattr(arguments, own) for own in ("rows", "sites", "seed")}
    report = {**about, "cases": cases}
    print(markdown(report))
    write_report(arguments.out, "bits", report, markdown)


if __name__ == "__main__":
    main()
