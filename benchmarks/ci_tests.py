"""Conditional-independence tests per second, and PC skeletons against causal-learn, in one run.

    python benchmarks/ci_tests.py --variables 100 --alarm alarm_5000.csv.gz --kernel-rows 200 500

Both packages search the order-independent PC skeleton of the same data with the same alpha, no
limit on the conditioning sets and no reliability rule, and take turns where they are repeated.
The peer is slow on many continuous variables (minutes at 300), so it is not warmed up there.
Kernel tests are those of a whole PC layer over eight variables; the peer takes some
of them, evenly spaced, in turns with ours. They are measured in processor seconds (set
OMP_NUM_THREADS=1), and our own way with whole matrices is measured once beside.
"""

from __future__ import annotations

import gzip
import json
import statistics
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
from measuring import environment, parser, timed, write_report

from cipherdag.sites.compute.ci_tests.ci_test import canonical
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest
from cipherdag.sites.compute.ci_tests.kci import KernelTest
from cipherdag.sites.compute.ci_tests.searches import stable_layer

BATCH = 20_000
LAYERS = range(4)
KERNEL_VARIABLES = 8
KERNEL_LAYERS = range(3)
PEER_TESTS = 24


@dataclass
class CountingTest:
    """Passes tests on and counts them."""

    test: object
    count: int = 0
    n_variables: int = field(init=False)

    def __post_init__(self) -> None:
        self.n_variables = self.test.n_variables

    def evaluate(self, x, y, given):
        self.count += len(x)
        return self.test.evaluate(x, y, given)


def main() -> None:
    arguments = parse()
    report = {
        "seed": arguments.seed,
        "repeats": arguments.repeats,
        "alpha": arguments.alpha,
        "device": arguments.device,
    }
    print(json.dumps(environment()))
    if arguments.variables:
        values = linear_gaussian(
            rows=arguments.rows,
            variables=arguments.variables,
            degree=arguments.degree,
            rng=np.random.default_rng(arguments.seed),
        )
        report["fisherz"] = {
            "rows": arguments.rows,
            "variables": arguments.variables,
            "degree": arguments.degree,
            "batches": batches(lambda: FisherZTest(values, device=arguments.device), arguments),
            "skeleton": skeletons(
                lambda: FisherZTest(values, device=arguments.device), values, "fisherz", arguments
            ),
        }
    if arguments.alarm is not None:
        codes = read_codes(arguments.alarm)
        report["g2"] = {
            "data": arguments.alarm.name,
            "rows": len(codes),
            "variables": codes.shape[1],
            "batches": batches(lambda: DiscreteTest(codes, device=arguments.device), arguments),
            "skeleton": skeletons(
                lambda: DiscreteTest(codes, min_rows_per_cell=0.0, device=arguments.device),
                codes,
                "gsq",
                arguments,
            ),
            "sites": site_layers(codes, arguments),
        }
    if arguments.kernel_rows:
        report["kci"] = {rows: kernels(rows, arguments) for rows in arguments.kernel_rows}
    write_report(arguments.out, "ci_tests", report)


def batches(make, arguments):
    """Distinct tests per second in large random batches, nothing cached, by conditioning size."""
    rng = np.random.default_rng(arguments.seed)
    found = {}
    for size in LAYERS:
        n_variables = make().n_variables
        chosen = rng.permuted(np.tile(np.arange(n_variables), (BATCH, 1)), axis=1)[:, : size + 2]
        x, y, given = chosen[:, 0], chosen[:, 1], chosen[:, 2:]
        distinct = len(np.unique(canonical(x, y, given, n_variables=n_variables).key))
        seconds = [timed(make().evaluate, x, y, given)[0] for _ in range(arguments.repeats + 1)][1:]
        found[size] = distinct / statistics.median(seconds)
        print(f"  batch, {size} given: {found[size]:12,.0f} tests/s")
    return found


def skeletons(make, data, method, arguments):
    """Seconds and tests per second of both packages, and where their skeletons differ."""
    ours, theirs = [], []
    for repeat in range(arguments.repeats + 1):
        seconds, _, (kept, layers, tests) = timed(pc_skeleton, make, arguments.alpha)
        if repeat:  # the first turn warms up
            ours.append(seconds)
        if repeat < arguments.peer_repeats:
            seconds, _, (peer_kept, calls, distinct) = timed(
                peer_skeleton, data, method, arguments.alpha
            )
            theirs.append(seconds)
    figure = {
        "median_seconds": statistics.median(ours),
        "range_seconds": [min(ours), max(ours)],
        "layers": layers,
        "tests": tests,
        "tests_per_second": tests / statistics.median(ours),
        "edges": int(kept.sum()) // 2,
    }
    print(
        f"  {method}: {figure['median_seconds']:.3f} s, {tests:,} tests, "
        f"{figure['tests_per_second']:,.0f} tests/s, {figure['edges']} edges"
    )
    if theirs:
        peer = statistics.median(theirs)
        figure["causal_learn"] = {
            "median_seconds": peer,
            "repeats": len(theirs),
            "calls": calls,
            "distinct_tests": distinct,
            "tests_per_second": distinct / peer,
        }
        figure["speedup"] = peer / figure["median_seconds"]
        figure["edges_that_differ"] = int((kept != peer_kept).sum()) // 2
        print(
            f"  causal-learn: {peer:.3f} s, {distinct:,} distinct tests in {calls:,} calls, "
            f"{distinct / peer:,.0f} tests/s\n  {figure['speedup']:.1f} times faster, "
            f"{figure['edges_that_differ']} edges differ"
        )
    return figure


def pc_skeleton(make, alpha):
    """The order-independent PC skeleton with conditioning sets of any size."""
    test = CountingTest(make())
    kept = ~np.eye(test.n_variables, dtype=bool)
    layer = 0
    while kept.sum(axis=1).max() > layer:
        kept = stable_layer(test, kept, layer=layer, alpha=alpha)
        layer += 1
    return kept, layer, test.count


def peer_skeleton(data, method, alpha):
    from causallearn.utils.cit import CIT
    from causallearn.utils.PCUtils.SkeletonDiscovery import skeleton_discovery

    test = CIT(data, method)
    calls = 0

    def counted(*question):
        nonlocal calls
        calls += 1
        return test(*question)

    counted.method = method
    graph = skeleton_discovery(data, alpha, counted, stable=True, show_progress=False).G.graph
    return graph != 0, calls, len(test.pvalue_cache) - 3  # three entries describe the cache


def kernels(rows, arguments):
    """Kernel tests per processor second by conditioning size, and how p-values differ."""
    values = curves(rows=rows, rng=np.random.default_rng(arguments.seed))
    found = {}
    for size in KERNEL_LAYERS:
        tests = layer_tests(size)
        every = max(len(tests) // PEER_TESTS, 1)
        ours, theirs = [], []
        for _ in range(arguments.repeats):
            rate, outcome = kernel_rate(values, tests, arguments)
            ours.append(rate)
            _, seconds, peer = timed(peer_kernels, values, tests[::every])
            theirs.append(len(peer) / seconds)
        whole_rate, whole = kernel_rate(values, tests, arguments, full_matrices=True)
        differ = np.abs(outcome.p_value[::every] - peer).max()
        found[size] = {
            "tests": len(tests),
            "tests_per_second": statistics.median(ours),
            "range": [min(ours), max(ours)],
            "causal_learn": {
                "tests": len(peer),
                "tests_per_second": statistics.median(theirs),
                "range": [min(theirs), max(theirs)],
            },
            "whole_matrices": {
                "tests_per_second": whole_rate,
                "largest_difference_of_p": float(np.abs(outcome.p_value - whole.p_value).max()),
            },
            "speedup": statistics.median(ours) / statistics.median(theirs),
            "largest_difference_of_p": float(differ),
        }
        print(
            f"  kci, {rows} rows, {size} given: {statistics.median(ours):8.1f} tests/s, "
            f"causal-learn {statistics.median(theirs):8.1f}, p differs by {differ:.0e}; "
            f"whole matrices {whole_rate:8.1f}",
            flush=True,
        )
    return found


def kernel_rate(values, tests, arguments, **settings):
    """Tests per processor second of a new test over some values, and its evidence."""
    test = KernelTest(values, max_rows=len(values), device=arguments.device, **settings)
    _, seconds, outcome = timed(test.evaluate, tests[:, 0], tests[:, 1], tests[:, 2:])
    return len(tests) / seconds, outcome


def layer_tests(size):
    """Every pair of eight variables with every conditioning set of one size."""
    variables = range(KERNEL_VARIABLES)
    return np.array(
        [
            (x, y, *members)
            for x, y in combinations(variables, 2)
            for members in combinations([v for v in variables if v not in (x, y)], size)
        ]
    )


def peer_kernels(values, tests):
    """p-values of causal-learn's KCI with its defaults, each test computed anew."""
    from causallearn.utils.cit import CIT

    test = CIT(values, "kci")
    return np.array([test(x, y, members) for x, y, *members in tests.tolist()])


def curves(*, rows, rng):
    """Every variable is a curve of the one before it, with noise."""
    values = rng.normal(size=(rows, KERNEL_VARIABLES))
    for child in range(1, KERNEL_VARIABLES):
        values[:, child] = np.sin(2.0 * values[:, child - 1]) + 0.5 * values[:, child]
    return values


def site_layers(codes, arguments):
    """Four layers of the skeleton at ten sites of 500 rows, one after the other."""
    parts = np.array_split(codes[:5000], 10)

    def search():
        for part in parts:
            test = DiscreteTest(part, device=arguments.device)
            kept = ~np.eye(test.n_variables, dtype=bool)
            for layer in LAYERS:
                kept = stable_layer(test, kept, layer=layer, alpha=arguments.alpha)

    seconds = [timed(search)[0] for _ in range(arguments.repeats + 1)][1:]
    print(f"  10 sites, 4 layers each: {statistics.median(seconds):.3f} s")
    return {"sites": 10, "rows_per_site": len(parts[0]), "seconds": statistics.median(seconds)}


def linear_gaussian(*, rows, variables, degree, rng):
    """Rows of a sparse linear Gaussian model in a random order of the variables."""
    present = np.triu(rng.random((variables, variables)) < degree / (variables - 1), k=1)
    weight = rng.uniform(0.3, 1.0, present.shape) * rng.choice([-1.0, 1.0], present.shape)
    values = rng.normal(size=(rows, variables))
    for child in range(variables):
        values[:, child] += values[:, :child] @ (weight * present)[:child, child]
    return values[:, rng.permutation(variables)]


def read_codes(path):
    """Codes of a table with one header row: every column's values in sorted order."""
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    cells = np.array([line.split(",") for line in text.splitlines()][1:])
    return np.column_stack([np.unique(column, return_inverse=True)[1] for column in cells.T])


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("--variables", type=int, default=100, help="0 leaves Fisher's z out")
    options.add_argument("--rows", type=int, default=5000)
    options.add_argument("--degree", type=float, default=3.0, help="average, of the true graph")
    options.add_argument("--alarm", type=Path, help="table of discrete data, .csv or .csv.gz")
    options.add_argument(
        "--kernel-rows", type=int, nargs="*", default=[], help="rows of kernel tests"
    )
    options.add_argument("--alpha", type=float, default=0.01)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--peer-repeats", type=int, default=1, help="0 leaves causal-learn out")
    options.add_argument("--device", default="cpu")
    return options.parse_args()


if __name__ == "__main__":
    main()
