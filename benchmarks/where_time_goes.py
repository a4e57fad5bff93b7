"""Where a run's processor time goes: every algorithm and the main kinds of evidence.

    python benchmarks/where_time_goes.py --out benchmarks/results/where_time_goes
    python benchmarks/where_time_goes.py --before ../before --cases fedpc

Every case runs in a process of its own, after a small run that warms up; all sites, the
coordinator and their messages are in it. Processor time is charged to the innermost part that is at
work, so that the parts add up. The table has their shares of the run, which other jobs disturb
little; seconds are in the JSON:

- set-up: keys of every two sites, signatures over the offers, schemas;
- sites: the sites' own computation of their answers;
- protection: shares, escrow, seeds, and the opening of the sum;
- last sum: every site's check that what was opened is the sum of the answers, and its numbers;
- replay: the algorithm itself, which coordinator and sites of one process share;
- messages: signatures, encoding and decoding, words from site to site, the rules of a round;
- ledger: the signed record of everything that left;
- report: what the result says in the end;
- rest: what is none of these, at the coordinator.

With --before, a folder with another revision, that runs too, in turns, and the table says how many
times as long it takes, and whether sums and results are the same to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from categorical_models import INTERVENED, random_model
from ci_tests import linear_gaussian
from markdown_table import table
from measuring import bytes_per_site, parser, write_report

from cipherdag import (
    Describe,
    Effect,
    FedBOSS,
    FedCD,
    FedCMFS,
    Federation,
    FedPC,
    Policy,
    RFcd,
    Survival,
)  # fmt: skip
from cipherdag.federation import in_process, simulated
from cipherdag.privacy.sums import CoordinatorAggregation, SiteAggregation
from cipherdag.program.replay import Replay
from cipherdag.protocol.session import Session
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.policy.policy import QUESTION_KINDS
from cipherdag.sites.record.ledger import Ledger
from cipherdag.sites.session.rounds import Rounds
from cipherdag.sites.session.runtime import SiteRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

ROOT = Path(__file__).parents[1]
ALARM = Path(__file__).parent / "data" / "alarm_5000.csv.gz"
LABELS = ("CVP", "PCWP", "BP")
SET_UP, REST = "set-up", "rest"
PARTS = {
    SET_UP: [(Session, "open"), (in_process._Started, "of")],  # noqa: SLF001 - keys are made there
    "sites": [(SiteView, "answer")],
    "protection": [
        *((SiteAggregation, name) for name in ("share", "escrow", "unmask")),
        *((CoordinatorAggregation, name) for name in ("check", "combine", "open")),
    ],
    "last sum": [(Rounds, "_opened_last")],
    "replay": [(Replay, "advance")],
    "messages": [(SiteRuntime, "answer"), (Session, "ask"), (Session, "finish")],
    "ledger": [(Ledger, "append")],
    "report": [(simulated, "result_of")],
}
VARYING = ("seconds", "round_reports", "ledgers", "bytes_sent_per_site", "versions")
"""What two runs of a result differ in, or what sums stand for."""
COLUMNS = ("case", *PARTS, REST, "rounds", "MB per site")
COMPARED = ("x before", "same")


def alarm(rows: int) -> pd.DataFrame:
    return pd.read_csv(ALARM, dtype=str).iloc[:rows]


def numbers(variables: int) -> pd.DataFrame:
    drawn = linear_gaussian(
        rows=5000, variables=variables, degree=3.0, rng=np.random.default_rng(0)
    )
    return pd.DataFrame(drawn, columns=[f"v{k:04d}" for k in range(variables)])


def mixed(rows: int) -> pd.DataFrame:
    """Ten columns, numbers and 2 to 4 categories, that depend on their two left neighbours."""
    rng, found = np.random.default_rng(0), {}
    values = np.zeros((rows, 10))
    for v, count in enumerate((0, 2, 3, 0, 2, 4, 0, 3, 0, 2)):
        pull = values[:, max(v - 2, 0) : v].sum(axis=1) * 0.4
        values[:, v] = drawn(pull, count, rng)
        found[f"v{v}"] = [f"c{code:.0f}" for code in values[:, v]] if count else values[:, v]
    return pd.DataFrame(found)


def drawn(pull: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """A number, or of several categories one, that goes with ``pull``."""
    if not count:
        return pull + rng.standard_normal(len(pull))
    noise = rng.gumbel(size=(len(pull), count))
    return (noise + np.outer(pull, np.linspace(-0.7, 0.7, count))).argmax(axis=1)


def sparse(rows: int) -> pd.DataFrame:
    """Four numbers, three columns of two and three of three categories, with about 16 edges."""
    rng, values = np.random.default_rng(3), np.zeros((rows, 10))
    found = {}
    for v, count in enumerate(rng.permutation([0] * 4 + [2] * 3 + [3] * 3).tolist()):
        pull = np.zeros(rows)
        for own in values[:, :v][:, rng.random(v) < 0.35].T:
            standard = (own - own.mean()) / own.std()
            pull += rng.choice([-1.0, 1.0]) * rng.uniform(0.3, 0.7) * standard
        values[:, v] = drawn(pull, count, rng)
        found[f"v{v}"] = [f"c{code:.0f}" for code in values[:, v]] if count else values[:, v]
    return pd.DataFrame(found)


def with_interventions() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return random_model("er-1", 6, rng).frame(6000, 500, rng)


def fedpc(data: Callable[[], pd.DataFrame], sites: int, policy: Policy | None = None, **own):
    return lambda: (Federation.split(data(), sites, policy=policy, device="cpu"), FedPC(**own))


def treated(rows: int) -> pd.DataFrame:
    """Ten covariates, numbers and categories, that act on a drug, on its cost and on death."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, len(COVARIATES)))
    values[:, 7:] = values[:, 7:] > 0.0
    push = values @ np.linspace(-0.4, 0.4, len(COVARIATES))
    drug = rng.random(rows) < 1.0 / (1.0 + np.exp(-push))
    died, lost = rng.exponential(20.0 * np.exp(0.3 * drug - push)), rng.uniform(2.0, 40.0, rows)
    found = {
        name: values[:, k] if k < 7 else np.where(values[:, k] > 0.0, "yes", "no")
        for k, name in enumerate(COVARIATES)
    }
    found["cost"] = 3.0 * drug + push + rng.normal(size=rows)
    found |= {"drug": np.where(drug, "new", "old"), "months": np.minimum(died, lost)}
    return pd.DataFrame(found | {"died": np.where(died <= lost, "yes", "no")})


def effect(estimator: str) -> Callable:
    asked = Effect(
        treatment="drug", outcome="cost", adjust=",".join(COVARIATES), estimator=estimator
    )
    rows = lambda: treated(100_000).drop(columns=["months", "died"])  # noqa: E731
    return lambda: (Federation.split(rows(), 10, policy=ESTIMATED, device="cpu"), asked)


OPEN = Policy(min_cell_size=0, max_values=2**53)
ESTIMATED = Policy(questions=QUESTION_KINDS)
COVARIATES = tuple(f"v{k}" for k in range(10))
CASES: dict[str, Callable] = {
    "fedpc auto, alarm, 10 sites": fedpc(lambda: alarm(5000), 10),
    "fedpc fisher, alarm, 10 sites": fedpc(lambda: alarm(5000), 10, evidence="fisher"),
    "fedpc pooled, alarm, 10 sites": fedpc(lambda: alarm(5000), 10, OPEN, evidence="pooled"),
    "fedpc vote, alarm, 10 sites": fedpc(lambda: alarm(5000), 10, evidence="vote"),
    "fedpc fisher, alarm, 100 sites": fedpc(lambda: alarm(5000), 100, evidence="fisher"),
    "fedpc auto, 100 numbers, 10 sites": fedpc(lambda: numbers(100), 10),
    "fedpc auto, 300 numbers, 10 sites": fedpc(lambda: numbers(300), 10),
    "fedpc glm, 10 mixed, 20,000 rows": fedpc(lambda: mixed(20_000), 3, evidence="glm"),
    "fedpc glm, 10 mixed, 200,000 rows": fedpc(lambda: mixed(200_000), 3, evidence="glm"),
    "fedpc regression, 10 mixed, 20,000 rows": fedpc(
        lambda: mixed(20_000), 3, evidence="fisher", test="regression"
    ),
    "fedpc regression votes, 10 mixed, 200,000 rows": fedpc(
        lambda: mixed(200_000), 3, evidence="vote", test="regression"
    ),
    "fedpc glm, sparse mixed, 200,000 rows": fedpc(lambda: sparse(200_000), 3, evidence="glm"),
    "fedpc regression votes, sparse mixed, 200,000 rows": fedpc(
        lambda: sparse(200_000), 3, evidence="vote", test="regression"
    ),
    "fedboss, alarm, 10 sites": lambda: (
        Federation.split(alarm(5000), 10, device="cpu"),
        FedBOSS(),
    ),
    "fedcmfs, alarm, 5 sites": lambda: (
        Federation.split(alarm(5000), 5, labels=LABELS, device="cpu"),
        FedCMFS(),
    ),
    "rfcd, alarm, 4 sites": lambda: (Federation.split(alarm(5000), 4, device="cpu"), RFcd()),
    "fedcd, 6 variables, 3 sites": lambda: (
        Federation.split(with_interventions(), 3, interventions=INTERVENED, device="cpu"),
        FedCD(),
    ),
    "describe, 10 mixed, 20,000 rows": lambda: (
        Federation.split(mixed(20_000), 3, device="cpu"),
        Describe(),
    ),
    "effect linear, 10 of 12, 100,000 rows, 10 sites": effect("linear"),
    "effect aipw, 10 of 12, 100,000 rows, 10 sites": effect("aipw"),
    "survival and Cox, 10 columns, 100,000 rows, 10 sites": lambda: (
        Federation.split(treated(100_000), 10, policy=ESTIMATED, device="cpu"),
        Survival(time="months", event="died", by="drug", adjust=("drug", *COVARIATES[:9])),
    ),
}


class Meter:
    """Charges processor time to the part at work."""

    def __init__(self) -> None:
        self._at_work = [REST]
        self.start()

    def start(self) -> None:
        """Begin at zero."""
        self.seconds = dict.fromkeys((*PARTS, REST), 0.0)
        self._since = time.process_time()

    def _charge(self) -> None:
        now = time.process_time()
        self.seconds[self._at_work[-1]] += now - self._since
        self._since = now

    @contextmanager
    def on(self, part: str) -> Iterator[None]:
        """Charge what follows to a part; all of a set-up is set-up."""
        self._charge()
        self._at_work.append(SET_UP if self._at_work[-1] == SET_UP else part)
        try:
            yield
        finally:
            self._charge()
            self._at_work.pop()

    def watch(self, owner: type | ModuleType, name: str, part: str) -> None:
        """Have every call charged to a part, for the rest of this process."""
        plain = owner.__dict__[name]
        method = plain.__func__ if isinstance(plain, classmethod) else plain

        @wraps(method)
        def charged(*arguments, **options):
            with self.on(part):
                return method(*arguments, **options)

        setattr(owner, name, classmethod(charged) if isinstance(plain, classmethod) else charged)


def main() -> None:
    arguments = parse()
    if arguments.one:
        print(json.dumps(measured(arguments.one)))
        return
    trees = {"here": ROOT} | ({"before": arguments.before} if arguments.before else {})
    found = []
    for case in CASES:
        if not any(word in case for word in arguments.cases):
            continue
        runs: dict[str, list[dict]] = {name: [] for name in trees}
        for _ in range(arguments.repeats):
            for name, tree in trees.items():
                runs[name].append(in_own_process(case, tree, arguments.threads))
        found.append(figures(case, runs))
        print(json.dumps(found[-1]), flush=True)
    report = {
        "threads": arguments.threads,
        "repeats": arguments.repeats,
        "load": os.getloadavg()[1],
        "cases": found,
    }
    write_report(arguments.out, "where_time_goes", report, markdown)


def in_own_process(case: str, tree: Path, threads: int) -> dict:
    """One measurement with the package of a revision."""
    options = {"OMP_NUM_THREADS": str(threads)} if threads else {}
    done = subprocess.run(
        [sys.executable, __file__, "--one", case],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **options, "PYTHONPATH": str(tree)},
    )
    return json.loads(done.stdout.splitlines()[-1])


def measured(case: str) -> dict:
    """A run's parts, after another that warms up; and digests of its sums and of its result."""
    small, quick = fedpc(lambda: alarm(600), 3, max_cond_size=1)()
    small.run(quick)
    federation, algorithm = CASES[case]()
    meter = Meter()
    for part, methods in PARTS.items():
        for owner, name in methods:
            meter.watch(owner, name, part)
    meter.start()
    result = federation.run(algorithm, seed=0)
    with meter.on(REST):
        parts = dict(meter.seconds)
    sums = "".join(own.aggregate for own in result.rounds)
    kept = {key: own for key, own in result.to_dict().items() if key not in VARYING}
    return {
        "parts": parts,
        "rounds": len(result.rounds),
        "bytes_per_site": bytes_per_site(result),
        "sums": hashlib.sha256(sums.encode()).hexdigest(),
        "result": hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest(),
    }


def figures(case: str, runs: dict[str, list[dict]]) -> dict:
    """The quickest run of each revision, which others disturbed least."""
    best = {name: min(own, key=seconds) for name, own in runs.items()}
    here = best["here"]
    found = {"case": case, "cpu_seconds": seconds(here), **here}
    if "before" in best:
        before = best["before"]
        found["before_cpu_seconds"] = seconds(before)
        ratios = [
            seconds(b) / seconds(h) for b, h in zip(runs["before"], runs["here"], strict=True)
        ]
        found["times_before"] = statistics.median(ratios)
        found["same"] = [key for key in ("sums", "result") if before[key] == here[key]]
    return found


def seconds(run: dict) -> float:
    return sum(run["parts"].values())


def markdown(report: dict) -> str:
    """One row per case."""
    rows = [
        [own["case"], *(f"{s / own['cpu_seconds']:.0%}" for s in own["parts"].values()),
         own["rounds"], f"{own['bytes_per_site'] / 1e6:.2f}",
         *([f"{own['times_before']:.1f}", ", ".join(own["same"])] if "same" in own else [])]
        for own in report["cases"]
    ]  # fmt: skip
    compared = any("same" in own for own in report["cases"])
    columns = (*COLUMNS, *COMPARED) if compared else COLUMNS
    threads = f"{report['threads']} thread" if report["threads"] else "threads as they come"
    intro = f"Shares of a whole run's processor time, {threads}, load {report['load']:.0f}:"
    return "\n".join([intro, "", *table(columns, rows)]) + "\n"


def parse():
    options = parser(__doc__)
    options.add_argument("--before", type=Path, help="folder with another revision")
    options.add_argument("--cases", nargs="*", default=[""], help="words that cases have")
    options.add_argument("--repeats", type=int, default=2)
    options.add_argument("--threads", type=int, default=1, help="0: as the libraries choose")
    options.add_argument("--one", help="measure this case here, and print it as JSON")
    return options.parse_args()


if __name__ == "__main__":
    main()
