"""RFcd at d = 20, 5 sites, 1000 rows each, beam 10, BIC: seconds, rounds, bytes, and what they buy.

    python benchmarks/rfcd_speed.py --out benchmarks/results/rfcd_speed.json

Everything runs in one process and one thread, so processor time is the sum over all sites and the
coordinator; it is what to compare on a shared machine. The time of a run is divided into the sites'
own computation (learning and scoring graphs), the coordinator's search, and the protected rounds.
Any protocol needs one such round a step: these are repeated alone, with one threshold
per candidate, and what is beyond them is the price of the secure maximum.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import msgspec
import numpy as np
import pandas as pd
from measuring import bytes_per_site, parser, timed, write_report
from polynomial_data import NEIGHBOURS

from cipherdag import Federation, RFcd
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.protocol.session import Session
from cipherdag.questions.regrets import pack_thresholds
from cipherdag.sites.answers.site_view import SiteView

D, SITES, ROWS = 20, 5, 1000


def main() -> None:
    arguments = parse()
    federation = Federation.simulate(linear_sites(arguments.seed), device="cpu")
    federation.run(RFcd(searching=Searching(search="beam", beam=1)))  # warms up
    runs = {
        protection: [
            measured(replace(federation, protection=protection, sites=allowed(federation)))
            for _ in range(arguments.repeats)
        ]
        for protection in ("masking", "none")
    }
    steps = runs["masking"][0].pop("first_questions")
    baseline = [replayed(federation, steps) for _ in range(arguments.repeats)]
    report = {
        "d": D, "sites": SITES, "rows": ROWS, "beam": 10, "seed": arguments.seed,
        "repeats": arguments.repeats, "steps": len(steps),
    }  # fmt: skip
    for protection, own in runs.items():
        for run in own:
            run.pop("first_questions", None)
        report[protection] = {
            key: statistics.median(run[key] for run in own) for key in own[0]
        } | {"every_wall_s": [run["wall_s"] for run in own]}  # fmt: skip
    masked = report["masking"]
    one_round = statistics.median(baseline)
    own_work = masked["sites_cpu_s"] + masked["search_cpu_s"]
    report["one_round_per_step_cpu_s"] = one_round
    report["share_of_protected_rounds"] = masked["rounds_cpu_s"] / masked["cpu_s"]
    report["share_of_secure_maximum"] = (masked["rounds_cpu_s"] - one_round) / masked["cpu_s"]
    print(
        f"masking: {masked['wall_s']:.1f} s wall, {masked['cpu_s']:.1f} s of processor; "
        f"{masked['rounds']:.0f} rounds, {masked['bytes_per_site'] / 1e6:.1f} MB per site\n"
        f"  sites {masked['sites_cpu_s']:.2f} s, search {masked['search_cpu_s']:.2f} s (together "
        f"{own_work:.2f} s), protected rounds {masked['rounds_cpu_s']:.2f} s\n"
        f"  of these {one_round:.2f} s for one round in each of {len(steps)} steps\n"
        f"  share of all protected rounds {report['share_of_protected_rounds']:.0%}, of what the "
        f"secure maximum adds to one round a step {report['share_of_secure_maximum']:.0%}"
    )
    write_report(arguments.out, "rfcd_speed", report)


def linear_sites(seed):
    """A random DAG with three neighbours a variable and other linear weights at every site."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(D)
    dag = np.triu(rng.random((D, D)) < NEIGHBOURS / (D - 1), k=1)
    tables = {}
    for site in range(SITES):
        weights = rng.uniform(0.5, 1.5, (D, D)) * rng.choice([-1, 1], (D, D))
        values = rng.normal(size=(ROWS, D))
        for v in range(D):
            values[:, v] += values[:, :v] @ (weights * dag)[:v, v]
        names = [f"v{k:02d}" for k in order]
        tables[f"site{site}"] = pd.DataFrame(values, columns=names)
    return tables


def allowed(federation):
    """The sites, which would also answer in the clear."""
    return tuple(
        replace(site, policy=replace(site.policy, allow_unprotected=True))
        for site in federation.sites
    )


def measured(federation):
    """One run: times of its parts, rounds and bytes, and each step's first question."""
    spent = {"answer": 0.0, "ask": 0.0}
    first = {}
    answer, ask = SiteView.answer, Session.ask

    def timed_answer(self, question):
        started = time.process_time()
        try:
            return answer(self, question)
        finally:
            spent["answer"] += time.process_time() - started

    def timed_ask(self, question):
        shared = len(np.unique(question.threshold_array(), axis=0)) == 1
        if question.n_graphs > 1 and shared:
            first[len(first)] = question
        started = time.process_time()
        try:
            return ask(self, question)
        finally:
            spent["ask"] += time.process_time() - started

    SiteView.answer, Session.ask = timed_answer, timed_ask
    try:
        wall, cpu, result = timed(federation.run, RFcd(searching=Searching(search="beam")))
    finally:
        SiteView.answer, Session.ask = answer, ask
    return {
        "wall_s": wall,
        "cpu_s": cpu,
        "sites_cpu_s": spent["answer"],
        "rounds_cpu_s": spent["ask"] - spent["answer"],
        "search_cpu_s": cpu - spent["ask"],
        "rounds": len(result.rounds),
        "bytes_per_site": bytes_per_site(result),
        "first_questions": list(first.values()),
    }


def asking(questions):
    """Asks each step's candidates once, with one threshold."""
    for question in questions:
        middle = question.threshold_array()[:1, :1]
        yield msgspec.structs.replace(question, thresholds=pack_thresholds(middle))


def replayed(federation, questions):
    """Processor time of one masked round per step, without the sites' computation."""
    from cipherdag.privacy.keys.identity import SigningIdentity
    from cipherdag.program.program import SharedProgram
    from cipherdag.program.run import run_program
    from cipherdag.protocol.engines.engine import LocalEngine
    from cipherdag.protocol.plan import Member, make_plan
    from cipherdag.sites.record.ledger import Ledger
    from cipherdag.sites.session.handshake import SiteProfile
    from cipherdag.sites.session.runtime import SiteRuntime

    coordinator = SigningIdentity.generate()
    keys = {site.name: SigningIdentity.generate() for site in federation.sites}
    pinned = {name: key.public for name, key in keys.items()}
    respondents = {
        site.name: SiteView.of_table(site.table, min_cell_size=0, device="cpu")
        for site in federation.sites
    }
    names = federation.sites[0].table.schema.names
    program = SharedProgram(lambda _: asking(questions), names)
    runtimes = {
        site.name: SiteRuntime(
            SiteProfile(
                name=site.name, identity=keys[site.name], coordinator=coordinator.public,
                pinned=pinned, schema=site.table.schema.canonical(), rows=site.table.rows,
            ),
            respondents[site.name], site.policy, Ledger(site.name, keys[site.name]),
            programs=program,
        )
        for site in federation.sites
    }  # fmt: skip
    plan = make_plan(
        [Member(name=name, identity=key) for name, key in pinned.items()],
        protection="masking", algorithm="rfcd",
    )  # fmt: skip
    engine = LocalEngine({name: runtime.handle for name, runtime in runtimes.items()})
    session = Session(engine, coordinator, plan)
    facts = Facts(session.open(), len(pinned), names=names)
    inside = 0.0
    answer = SiteView.answer

    def timed(self, question):
        nonlocal inside
        started = time.process_time()
        try:
            return answer(self, question)
        finally:
            inside += time.process_time() - started

    SiteView.answer = timed
    try:
        started = time.process_time()
        run_program(session, program(plan, facts).replay)
        return time.process_time() - started - inside
    finally:
        SiteView.answer = answer


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("--repeats", type=int, default=3)
    return options.parse_args()


if __name__ == "__main__":
    main()
