"""A site leaves before, in and after every round of every algorithm, under every protection.

A run ends in the graph of all five sites, in that of the four that are left, in one between the two
that leaves edges undirected or, where no test came about, has more of them, or in a named error;
never in an arrow that both lack, and never in an exception without a name. (All sites hold the same
rows, so that votes do not differ; joint tests have less power without a site.)

    python benchmarks/departures.py [--seeds 3] [--protections masking,bfv,none] [--every 1]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from cipherdag import FedCD, FedCMFS, Federation, FedPC, RFcd, Training
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.errors import CipherdagError
from cipherdag.graphs.networks import asia
from cipherdag.protocol.engines.engine import LocalEngine, SiteFailure
from cipherdag.sites.policy.policy import QUESTION_KINDS, Policy

N_SITES = 5
SMALL = {
    "rounds": 2,
    "training": Training(epochs=1, fit_steps=20, graph_steps=5, graphs=20, hidden=8),
}
STEPS = ("ask", "unmask", "finish")


class Leaving(LocalEngine):
    """An engine that one site is gone from, at a call of an operation.

    ``heard`` counts calls of each operation; the site still answers the last one if ``after``.
    """

    def __init__(self, handlers, operation="", number=0, *, after=False, site=""):
        super().__init__(handlers)
        self._at, self._after, self._site = (operation, number), after, site
        self.heard = Counter()
        self._gone = False

    def call(self, operation, messages, *, timeout_s):
        """See `Engine.call`."""
        self.heard[operation] += 1
        leaves = (operation, self.heard[operation]) == self._at
        if leaves and self._after:
            super().call(operation, {self._site: messages[self._site]}, timeout_s=timeout_s)
        self._gone = self._gone or leaves
        gone = {self._site} if self._gone else set()
        alive = {name: own for name, own in messages.items() if name not in gone}
        replies = super().call(operation, alive, timeout_s=timeout_s)
        return replies | {name: SiteFailure("timeout") for name in messages if name in gone}


def trials(seed, n_sites=N_SITES):
    """Every algorithm with every way to reach its evidence: name, algorithm, federation."""
    rows = asia().sample(900, np.random.default_rng(seed))
    five = rows[list(asia().graph.nodes[:5])]
    rng = np.random.default_rng(seed)
    mixed = pd.DataFrame({"a": rng.normal(size=400)})
    mixed["b"] = np.where(mixed["a"] + rng.normal(size=400) > 0, "yes", "no")
    mixed["c"] = mixed["a"] + rng.normal(size=400)
    mixed["d"] = np.where(mixed["c"] + rng.normal(size=400) > 0, "high", "low")
    numbers = pd.DataFrame(
        rng.normal(size=(300, 4)) @ np.triu(np.ones((4, 4))), columns=list("abcd")
    )
    done = five.assign(done=np.where(rng.random(len(five)) < 0.3, five.columns[0], ""))
    for evidence in ("stratified", "weighted_p", "fisher", "pooled"):
        yield f"fedpc {evidence}", FedPC(evidence=evidence), sites(five, n_sites)
    for sepset in ("max", "mean", "vote"):
        yield (
            f"fedpc vote, {sepset}",
            FedPC(evidence="vote", voting=Voting(sepset=sepset)),
            sites(rows, n_sites),
        )
    yield "fedpc pooled numbers", FedPC(evidence="pooled"), sites(numbers, n_sites)
    yield "fedpc glm", FedPC(evidence="glm"), sites(mixed, n_sites)
    for name, rows_of in (("numbers", numbers), ("mixed", mixed)):
        yield f"fedpc stratified {name}", FedPC(evidence="stratified"), sites(rows_of, n_sites)
    yield "fedpc bootstrap", FedPC(bootstrap=2), sites(five, n_sites)
    labels = tuple(five.columns[1:3])
    for evidence in ("weighted_p", "fisher"):
        yield f"fedcmfs {evidence}", FedCMFS(evidence=evidence), sites(five, n_sites, labels=labels)
    for objective in ("graph", "nodewise", "sum"):
        yield (
            f"rfcd {objective}",
            RFcd(searching=Searching(beam=2), objective=objective),
            sites(numbers, n_sites),
        )
    yield "fedcd", FedCD(**SMALL), sites(done, n_sites, interventions="done")


def sites(rows, n_sites, **settings):
    """So many sites with the same rows."""
    data = {f"site-{k}": rows for k in range(n_sites)}
    policy = Policy(
        questions=QUESTION_KINDS, reveal="sums", allow_unprotected=True, min_cell_size=0
    )
    return Federation.simulate(data, policy=policy, device="cpu", **settings)


def outcome(federation, algorithm, engine):
    """What a run came to: the result, or the name of its error."""
    made = []

    def wire(handlers):
        made.append(engine(handlers))
        return made[0]

    try:
        found = replace(federation, wire=wire).run(algorithm, seed=1)
    except CipherdagError as error:
        return type(error).__name__, made[0]
    return found, made[0]


def verdict(found, references):
    """How a run with a departure compares with the runs of all and of the rest."""
    if isinstance(found, str):
        return found
    if not hasattr(found.finding, "graph"):
        chosen = [
            {(a, own.feature) for a, of in r.finding.features.items() for own in of}
            for r in references
        ]
        own = {(a, feature.feature) for a, of in found.finding.features.items() for feature in of}
        return "right" if set.intersection(*chosen) <= own <= set.union(*chosen) else "WRONG"
    if any(found.finding.graph == own.finding.graph for own in references):
        return "right"
    pairs = [
        {frozenset((e.source, e.target)) for e in own.finding.graph.edges} for own in references
    ]
    arrows = [
        {(e.source, e.target) for e in own.finding.graph.edges if e.mark == "-->"}
        for own in references
    ]
    kept = {frozenset((e.source, e.target)) for e in found.finding.graph.edges}
    # an edge that says its test was not done may force a common effect at its ends
    ends = {
        end
        for own in found.finding.evidence.edges
        if own.status == "undone"
        for end in (own.source, own.target)
    }
    new = {
        (e.source, e.target)
        for e in found.finding.graph.edges
        if e.mark == "-->" and e.target not in ends
    }
    if set.intersection(*pairs) <= kept and new <= set.union(*arrows):
        return "less certain"
    return "WRONG"


def study(name, algorithm, federation, every, site="site-2"):
    """Every departure of one trial, by verdict."""
    whole, engine = outcome(federation, algorithm, Leaving)
    others = tuple(own for own in federation.sites if own.name != site)
    rest, _ = outcome(replace(federation, sites=others), algorithm, Leaving)
    for ended in (whole, rest):
        if isinstance(ended, str):
            raise SystemExit(f"{name}: the run of all, or of the rest, ended in {ended}")
    found = Counter()
    for operation in STEPS:
        for number in range(1, engine.heard[operation] + 1, every):
            for after in (False, True):
                ended, _ = outcome(
                    federation,
                    algorithm,
                    lambda h, o=operation, n=number, a=after: Leaving(h, o, n, after=a, site=site),
                )
                found[verdict(ended, (whole, rest))] += 1
    return found


def main():
    """Print a line a trial, and write them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--protections", default="masking,bfv,none")
    parser.add_argument("--every", type=int, default=1, help="only every so many rounds")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    lines, wrong = [], 0
    for protection in arguments.protections.split(","):
        for seed in range(arguments.seeds):
            for name, algorithm, federation in trials(seed):
                own = replace(federation, protection=protection)
                found = study(name, algorithm, own, arguments.every)
                wrong += found["WRONG"]
                lines.append(
                    {"trial": name, "protection": protection, "seed": seed, "ended": dict(found)}
                )
                print(f"{protection:8} {seed} {name:24} {dict(found)}", flush=True)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
    print(f"{sum(sum(own['ended'].values()) for own in lines)} departures, {wrong} wrong graphs")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
