"""What keys cost where sites are many: a key for every two of them, or a sparse graph of keys.

    python benchmarks/many_sites.py --out benchmarks/results/many_sites

Every case is a run in a process of its own, all sites and the coordinator in it, on four binary
columns of which each site has 50 rows: the set-up, the dearest round, and all rounds. `bits` are
FedPC's default tests given nothing, `sums` the pooled tables of the same columns. Processor
seconds are those of all parties together; over a network each has its part of them. In the last
case a twentieth of the sites leave in the run's second round, after their shares came.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
import pandas as pd
from markdown_table import table
from measuring import parser, write_report

from cipherdag import Federation, FedPC, Policy
from cipherdag.privacy.key_graph import COMPLETE_UP_TO, KeyBounds
from cipherdag.protocol.engines.engine import LocalEngine, SiteFailure
from cipherdag.protocol.progress import Watcher

CASES = (
    *((sites, 1, 0, "bits") for sites in (10, 100, 300, 1000)),
    *((sites, 1, 0, "sums") for sites in (10, 100, 300, 1000)),
    (1000, 100, 0, "sums"),
    (1000, 100, 50, "sums"),
)
"""Sites, how many of them may collude, how many leave, and what is opened."""
EVIDENCE = {"bits": "stratified", "sums": "pooled"}
ROWS, SEED = 50, 0


class Clock(Watcher):
    """Processor time of the set-up and of every round."""

    def __init__(self) -> None:
        self.rounds, self._since = [], time.process_time()
        self.set_up = None

    def asked(self, *_) -> None:
        now = time.process_time()
        if self.set_up is None:
            self.set_up = now - self._since
        self._since = now

    def __call__(self, report) -> None:
        spent = time.process_time() - self._since
        self.rounds.append({"kind": report.kind, "seconds": spent})


class Leaving(LocalEngine):
    """Some sites answer nothing from the second time on that seeds are asked for."""

    def __init__(self, handlers, count: int) -> None:
        super().__init__(handlers)
        self._left, self._asked, self._count = frozenset(), 0, count

    def call(self, operation, messages, *, timeout_s):
        self._asked += operation == "unmask"
        if self._asked == 2:
            self._left = frozenset(list(messages)[-self._count :] if self._count else ())
            self._asked += 1
        alive = {site: own for site, own in messages.items() if site not in self._left}
        replies = super().call(operation, alive, timeout_s=timeout_s)
        return replies | {site: SiteFailure("gone") for site in messages if site in self._left}


def main() -> None:
    options = parse()
    if options.one is not None:
        *numbers, opened = options.one.split()
        print(json.dumps(measured(*map(int, numbers), opened)))
        return
    cases = [in_own_process(*case) for case in CASES if case[0] <= options.most]
    report = {"rows": ROWS, "cases": cases}
    print(markdown(report))
    write_report(options.out, "many_sites", report, markdown)


def in_own_process(*case: int | str) -> dict:
    done = subprocess.run(
        [sys.executable, __file__, "--one", " ".join(map(str, case))],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return json.loads(done.stdout.splitlines()[-1])


def measured(n_sites: int, colluders: int, leaving: int, opened: str) -> dict:
    """A run's figures."""
    sites = rows_of(n_sites)
    policy = Policy(tolerated_colluders=colluders, min_cell_size=0)
    federation = Federation.simulate(sites, device="cpu", policy=policy)
    federation = Federation(
        federation.sites, device="cpu", wire=lambda handlers: Leaving(handlers, leaving)
    )
    clock, started = Clock(), time.perf_counter()
    algorithm = FedPC(evidence=EVIDENCE[opened], max_cond_size=0)
    result = federation.run(algorithm, progress=clock)
    wall = time.perf_counter() - started
    bounds = bounds_of(n_sites, colluders)
    return {
        "sites": n_sites, "colluders": colluders, "leaving": leaving, "opened": opened,
        "graph": "complete" if bounds is None else "sparse",
        "keys": n_sites - 1 if bounds is None else bounds.degree,
        "threshold": None if bounds is None else bounds.threshold,
        "exposure": None if bounds is None else bounds.exposure,
        "loss": None if bounds is None else bounds.loss,
        "set_up": clock.set_up, "rounds": clock.rounds, "wall": wall,
        "left": len(result.dropouts),
        "bytes": sum(result.bytes_sent_per_site.values()) / n_sites,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }  # fmt: skip


def bounds_of(n_sites: int, colluders: int) -> KeyBounds | None:
    if n_sites <= COMPLETE_UP_TO:
        return None
    return KeyBounds.fewest(n_sites, colluders, -(-n_sites // 20))


def rows_of(n_sites: int) -> dict[str, pd.DataFrame]:
    """A chain of three columns and one on its own, by site."""
    rng = np.random.default_rng(SEED)
    n_rows = n_sites * ROWS
    first, alone = rng.integers(0, 2, (2, n_rows))
    second = first ^ (rng.random(n_rows) < 0.2)
    third = second ^ (rng.random(n_rows) < 0.2)
    whole = pd.DataFrame({"a": first, "b": second, "c": third, "d": alone}).astype(int)
    return {f"site-{k + 1:04d}": whole[k * ROWS : (k + 1) * ROWS] for k in range(n_sites)}


def markdown(report: dict) -> str:
    """One row per case."""
    rows = [
        [f"{own['sites']:,}", own["opened"], str(own["colluders"]), own["graph"], str(own["keys"]),
         sure(own["exposure"]), sure(own["loss"]), f"{own['set_up']:.1f} s",
         f"{dearest(own):.1f} s" + (f", {own['left']} leave" if own["left"] else ""),
         f"{sum(each['seconds'] for each in own['rounds']):.1f} s",
         f"{own['bytes'] / 1e3:,.0f} kB", f"{own['peak_mb']:,.0f} MB"]
        for own in report["cases"]
    ]  # fmt: skip
    head = ("sites", "opened", "collude", "graph", "keys a site", "exposed", "ends", "set-up",
            "dearest round", "all rounds", "sent by a site", "peak of all")  # fmt: skip
    return "\n".join(table(head, rows)) + "\n"


def dearest(case: dict) -> float:
    """Processor seconds of the dearest round."""
    return max(own["seconds"] for own in case["rounds"])


def sure(chance: float | None) -> str:
    if chance is None:
        return "-"
    return "0" if chance == 0 else f"2^{np.ceil(np.log2(chance)):.0f}"


def parse():
    options = parser(__doc__)
    options.add_argument("--most", type=int, default=1000, help="sites of a case, at most")
    options.add_argument("--one", help="measure this case here, and print it as JSON")
    return options.parse_args()


if __name__ == "__main__":
    main()
