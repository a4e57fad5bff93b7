"""FedPC's tables: data sets x sites x samples, by every kind of evidence and every comparator.

    python benchmarks/fedpc_tables.py DATA_FOLDER --data alarm insurance --lines fedpc.jsonl
    python benchmarks/fedpc_tables.py --report --lines fedpc.jsonl

DATA_FOLDER is what `fedpc_data` reads. Every sample of 5000 rows is drawn anew (seed = its number)
and split unevenly; FedPC's answers are masked. `pooled` runs with sites that allow every count,
`pooled-11` with the default policy, whose tables with counts below 11 never leave a site. Cheap
cases come first. A case that takes longer than --limit is left out, and so are the same method's
cases with as many sites or more; the tables say so. Finished cases are read from --lines (one JSON
object per line) and not run again, so a run may be stopped and resumed. --out writes JSON and
Markdown, --report prints the Markdown.
"""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from pathlib import Path

from comparators import registry
from fedpc_data import NONLINEAR, VARIABLES, draw
from fedpc_report import markdown, summary
from measuring import add_line, bytes_per_site, parser, read_lines, timed, write_report

from cipherdag import Federation, FedPC, Policy
from cipherdag.algorithms.evidence.registry import EVIDENCE as KINDS
from cipherdag.algorithms.parameters import grouped
from cipherdag.sites.policy.policy import QUESTION_KINDS

EVIDENCE = {
    "vote": {"evidence": "vote"},
    "vote-code": {"evidence": "vote", "reference": "code"},
    "weighted_p": {"evidence": "weighted_p"},
    "fisher": {"evidence": "fisher"},
    "pooled-11": {"evidence": "pooled"},
    "pooled": {"evidence": "pooled"},
}
COMPARATORS = tuple(registry())


def voting(parameters: dict) -> bool:
    """Whether sites vote: a reference is given, or votes are."""
    return parameters.get("evidence", "vote") == "vote"


SLOW = {"FedDAG": 2000, "NOTEARS-Avg": 60, "NOTEARS-ADMM": 40, "vote-code": 4, "pooled-11": 2}
"""How many times slower than others, for the order only."""
KERNEL_SLOWNESS = 100
HUBS = {"pigs"}
"""Data whose hubs have millions of candidate sets: sets come from the search of the skeleton."""
KERNEL_METHODS = tuple(
    name for name, own in EVIDENCE.items() if voting(own) or not KINDS[own["evidence"]].tests
)
KERNEL_ROWS = 500
"""Rows of a site that a kernel test looks at; for non-linear models only (FedPC-KBT)."""


def main() -> None:
    arguments = parse()
    cases = read_lines(arguments.lines)
    if not arguments.report:
        learn_all(arguments, cases)
    figures = {"cases": summary(cases)}
    write_report(arguments.out, "fedpc_tables", figures, markdown)
    if arguments.report:
        print(markdown(figures))


def learn_all(arguments, cases: list[dict]) -> None:
    """Run what is not done yet, cheapest first, until the budget is spent."""
    started = time.monotonic()
    done = {key(case) for case in cases}
    sample: tuple = (None, None, None)
    for name, number, sites, method in planned(arguments):
        case = {"data": name, "sites": sites, "method": method, "sample": number}
        if key(case) in done or given_up(case, cases):
            continue
        if time.monotonic() - started > arguments.budget:
            return
        if sample[:2] != (name, number):
            sample = (name, number, draw(name, arguments.folder, number))
        case |= measure(sample[2], case, arguments.limit)
        cases.append(case)
        add_line(arguments.lines, case)
        shown = case.get("left_out") or f"SHD {case['shd']:6.1f}  {case['seconds']:.1f} s"
        print(f"{name:10} {sites:3} sites  {method:15} sample {number}  {shown}", flush=True)


def planned(arguments) -> list[tuple[str, int, int, str]]:
    """All cases: (data, sample, sites, method), cheap ones first."""
    cases = [
        (name, number, 1 if method == "PC-All" else sites, method)
        for name in arguments.data
        for number in range(arguments.samples)
        for sites in arguments.sites
        for method in arguments.methods
        if name not in NONLINEAR or method in KERNEL_METHODS or method in COMPARATORS
    ]

    def cost(case):
        name, number, sites, method = case
        share = sites if method in EVIDENCE or method.endswith("Avg") else 1
        tests = 1 if name not in NONLINEAR or method.startswith("NOTEARS") else KERNEL_SLOWNESS
        return VARIABLES[name] ** 2 * share * SLOW.get(method, 1) * tests, number

    # one drawing of a sample serves all its methods of about one cost
    return sorted(dict.fromkeys(cases), key=lambda case: (cost(case), case))


def measure(sample, case: dict, limit: float) -> dict:
    """Run one case; its measures, or why it was left out."""
    data, schema, truth = sample
    method = case["method"]
    federation = Federation.split(
        data, case["sites"], seed=case["sample"], schema=schema, policy=policy(method), device="cpu"
    )
    learn = by_comparator if method in COMPARATORS else by_evidence
    try:
        with time_limit(limit):
            _, cpu, measures = timed(learn, federation, case, truth)
    except OutOfTimeError:
        return {"left_out": f"longer than {limit:.0f} s"}
    return measures | {"seconds": cpu}  # of the processor, whatever else runs beside


def by_evidence(federation, case: dict, truth) -> dict:
    parameters = EVIDENCE[case["method"]]
    if case["data"] in HUBS and not voting(parameters):
        parameters = parameters | {"sepset": "search"}
    if case["data"] in NONLINEAR:
        parameters = parameters | {"test": "kci", "kernel_rows": KERNEL_ROWS}
    result = federation.run(FedPC(**grouped(FedPC, parameters)), seed=case["sample"])
    metrics = result.finding.metrics(truth)
    names = ("shd", "reverse", "extra", "miss", "f1", "tpr", "precision")
    return {name: getattr(metrics, name) for name in names} | {
        "shd_cpdag": result.finding.metrics_cpdag(truth).shd,
        "rounds": len(result.rounds),
        "bytes_per_site": bytes_per_site(result),
        "tests": dict(result.finding.details.get("tests", {})),
    }


def by_comparator(federation, case: dict, truth) -> dict:
    known = registry(
        test="kci" if case["data"] in NONLINEAR else "auto",
        kernel_rows=KERNEL_ROWS,
        sepset="search" if case["data"] in HUBS else "max",
    )
    own = known[case["method"]]
    return own.judge(own.learn([site.table for site in federation.sites]), truth)


def policy(method: str) -> Policy:
    return Policy(
        questions=QUESTION_KINDS,
        min_cell_size=11 if method == "pooled-11" else 0,
        max_values=2**53,
        max_tests=2**53,
    )


class OutOfTimeError(BaseException):
    """No Exception: what a site computes would answer one with a refusal."""


@contextmanager
def time_limit(seconds: float):
    """Raise OutOfTimeError in the block after so many seconds."""

    def expire(*_):
        raise OutOfTimeError

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def given_up(case: dict, cases: list[dict]) -> bool:
    """Whether the method took too long on as many sites or fewer, on any sample."""
    return any(
        "left_out" in other
        and (other["data"], other["method"]) == (case["data"], case["method"])
        and other["sites"] <= case["sites"]
        for other in cases
    )


def key(case: dict) -> tuple:
    return case["data"], case["sites"], case["method"], case["sample"]


def parse():
    options = parser(__doc__)
    options.add_argument("folder", type=Path, nargs="?")
    options.add_argument("--data", nargs="+", choices=list(VARIABLES), default=list(VARIABLES))
    options.add_argument("--sites", nargs="+", type=int, default=[3, 5, 10, 15])
    methods = [*EVIDENCE, *COMPARATORS]
    options.add_argument("--methods", nargs="+", choices=methods, default=methods)
    options.add_argument("--samples", type=int, default=5)
    options.add_argument("--limit", type=float, default=120.0, help="seconds of one case")
    options.add_argument("--budget", type=float, default=float("inf"), help="seconds of all")
    options.add_argument("--lines", type=Path, default=Path("fedpc_tables.jsonl"))
    options.add_argument("--report", action="store_true", help="print the tables and run nothing")
    arguments = options.parse_args()
    if arguments.folder is None and not arguments.report:
        options.error("a run needs DATA_FOLDER")
    return arguments


if __name__ == "__main__":
    main()
