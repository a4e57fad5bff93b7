"""What verdicts cost beside sums, and what each tells of single sites and of members.

    python benchmarks/verdicts.py benchmarks/data/alarm_5000.csv.gz --networks DATA/bn

DATA/bn holds networks as BIF; without it the last two tables are left out. With ``--parts`` some
parts are measured, and the others stay as they are in the file of ``--out``.

The first table has processor seconds, rounds and megabytes of the site that sends most, of the same
evidence with sums opened and closed, under masking. The second counts what one run by votes tells
of single sites, which are three and hold 500 rows each: single votes that unanimous counts tell,
counts of one or two sites, and how well votes given nothing tell whether a person's row was among a
site's (membership). That attacker is the strongest there is: it knows all other rows, and has only
to find which of two runs it was. Printed is the area under the curve; 0.5 is a guess. The third
table has the same of an attacker who knows the population and the person's row, but no other row
(``membership.py``); of eight samples of people the mean and its standard error. The fourth has the
mean structural Hamming distance to the CPDAG of the true graph over samples of 5,000 rows.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from bif import read_bif
from markdown_table import table
from measuring import parser, timed, write_report
from membership import REVEALED, ROWS, SITES, area, population_attacks, population_table

from cipherdag import Federation, FedPC
from cipherdag.questions.coverage import Contributors, Covered
from cipherdag.questions.lockstep import parts_of
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.questions.verdicts import EdgeVerdicts
from cipherdag.sites.table.schema import Schema

EVIDENCE = ("vote", "stratified", "fisher", "weighted_p")
WAYS = (
    ("vote", "verdicts", "auto"),
    *(("fisher", kind, "auto") for kind in REVEALED),
    ("stratified", "sums", "auto"),
    ("stratified", "sums", "majority"),
    ("stratified", "verdicts", "auto"),
)
"""Evidence, what is revealed, and the rule for colliders."""
NETWORKS = {"alarm": WAYS, "insurance": WAYS, "andes": (WAYS[3], WAYS[5])}
"""On the largest, for time, what `stratified` finds with sums opened and closed."""


def cost(data, sites, repeats, seed):
    """Medians of every evidence, with sums opened and closed in turns."""
    federation = Federation.split(data, sites, seed=seed, device="cpu")
    cases = []
    for evidence in EVIDENCE:
        runs = {kind: [] for kind in REVEALED}
        federation.run(FedPC(evidence=evidence, max_cond_size=0), seed=seed)
        for _ in range(repeats):
            for kind in REVEALED:
                algorithm = FedPC(evidence=evidence, reveal=kind)
                _, seconds, found = timed(federation.run, algorithm, seed=seed)
                most = max(found.bytes_sent_per_site.values()) / 1e6
                runs[kind].append((seconds, most, len(found.rounds), found.graph))
        joined = [_pairs(run[3]) for own in runs.values() for run in own]
        cases.append(
            {
                "evidence": evidence,
                "sites": sites,
                "differing_pairs": max(len(own ^ joined[0]) for own in joined),
                "edges": len(joined[0]),
                **{
                    kind: dict(
                        zip(
                            ("seconds", "megabytes", "rounds"),
                            map(statistics.median, list(zip(*own, strict=True))[:3]),
                            strict=True,
                        )
                    )
                    for kind, own in runs.items()
                },
            }
        )
    return cases


def _pairs(graph):
    return {frozenset((edge.source, edge.target)) for edge in graph.edges}


def heard(federation, algorithm):
    """Every question of a run with what came back."""
    pairs = []

    def listening(facts):
        asking, answer = algorithm.ask(facts), None
        try:
            while True:
                question = asking.send(answer)
                answer = yield question
                pairs.append((question, answer))
        except StopIteration as finished:
            return finished.value

    federation.ask(algorithm.name, listening, seed=0)
    return pairs


def told_of_single_sites(pairs):
    """Votes that unanimous counts tell, and counts of one or two contributors."""
    votes = few = 0
    for question, values in pairs:
        for part in parts_of(question):
            if isinstance(part, Covered) and isinstance(part.question, EdgeVotes):
                cast, able = np.split(values, 2)
                votes += int(able[(able > 0) & ((cast == 0) | (cast == able))].sum())
            if isinstance(part, Contributors):
                few += int(((values > 0) & (values < SITES)).sum())
    return votes, few


def first_votes(pairs):
    """What the first layer tells of every pair: votes, or whether its edge falls."""
    for question, values in pairs:
        part = parts_of(question)[0]
        if isinstance(part, EdgeVerdicts):
            return values
        if isinstance(part, Covered):
            return values[: len(values) // 2]
    raise ValueError("no votes were cast")


def membership(data, reveal, trials, rng):
    """How well two runs that differ in one row tell whether it was there: AUC over trials.

    The attacker knows the row, and all others; it sees what is told with and without it, and
    compares with what was told. Where both are alike it can but guess.
    """
    scores, truth = [], []
    for _ in range(trials):
        rows = rng.permutation(len(data))[: SITES * ROWS + 1]
        parts = np.array_split(rows[1:], SITES)
        person, other = rows[0], parts[0][0]
        seen = {}
        for inside in (False, True):
            first = np.concatenate([[person if inside else other], parts[0][1:]])
            tables = [data.iloc[own] for own in (first, *parts[1:])]
            federation = Federation.simulate(
                dict(zip("abc", tables, strict=True)),
                protection="none",
                schema=_schema(data),
                device="cpu",
            )
            algorithm = FedPC(evidence="vote", reveal=reveal, max_cond_size=0)
            seen[inside] = first_votes(heard(federation, algorithm))
        for inside in (False, True):
            away = np.abs(seen[inside] - seen[not inside]).sum()
            # alike: a guess; else the run that it is like is known
            scores.append((1.0 if inside else -1.0) * (away > 0))
            truth.append(inside)
    return area(np.array(scores), np.array(truth))


def _schema(data):
    """The whole table's; a rare category may be missing at one site."""
    known = Schema.infer([data])
    return replace(known, columns=tuple(replace(c, allow_constant=True) for c in known.columns))


def attacks(data, trials, seed):
    """What one run tells of single sites, with sums opened and closed."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(data))[: SITES * ROWS]
    tables = {name: data.iloc[own] for name, own in
              zip("abc", np.array_split(rows, SITES), strict=True)}  # fmt: skip
    federation = Federation.simulate(tables, schema=_schema(data), device="cpu")
    cases = []
    for reveal in REVEALED:
        votes, few = told_of_single_sites(heard(federation, FedPC(evidence="vote", reveal=reveal)))
        auc = membership(data, reveal, trials, np.random.default_rng(seed))
        cases.append({"reveal": reveal, "votes": votes, "few": few, "membership": auc})
    return cases


def accuracy(folder, sites, samples):
    """Distances to the CPDAG of the true graph, by network and way."""
    cases = []
    for name, ways in NETWORKS.items():
        network = read_bif(folder / f"{name}.bif.gz")
        far = {way: [] for way in ways}
        for seed in range(samples):
            rows = network.sample(5000, np.random.default_rng(seed))
            federation = Federation.split(rows, sites, seed=seed, protection="none", device="cpu")
            for way in ways:
                evidence, reveal, colliders = way
                run = FedPC(evidence=evidence, reveal=reveal, colliders=colliders)
                found = federation.run(run)
                far[way].append(found.metrics_cpdag(network.graph).shd)
        cases += [
            {"network": name, "way": ", ".join(own for own in way if own != "auto"), "shd": far_off}
            for way, far_off in far.items()
        ]
    return cases


def accuracy_table(cases):
    """A row for every network, a column for every way."""
    heads = list(dict.fromkeys(case["way"] for case in cases))
    rows = []
    for name in dict.fromkeys(case["network"] for case in cases):
        own = {case["way"]: case["shd"] for case in cases if case["network"] == name}
        rows.append([name, *(f"{statistics.mean(own[w]):.1f}" if w in own else "" for w in heads)])
    return table(["network", *heads], rows)


def cost_table(cases):
    """A row for every kind of evidence, sums and verdicts with an arrow between."""
    rows = [
        [
            case["evidence"],
            case["sites"],
            *(
                f"{case['sums'][key]:.{digits}f} → {case['verdicts'][key]:.{digits}f}"
                for key, digits in (("seconds", 2), ("megabytes", 2), ("rounds", 0))
            ),
            f"{case['differing_pairs']} of {case['edges']}",
        ]
        for case in cases
    ]
    heads = ["evidence", "sites", "processor s", "MB of a site", "rounds", "edges of one only"]
    return table(heads, rows)


def attack_table(cases):
    """A row for sums and one for verdicts."""
    rows = [
        [case["reveal"], case["votes"], case["few"], f"{case['membership']:.2f}"] for case in cases
    ]
    heads = ["revealed", "single votes told", "counts of one or two sites", "membership AUC"]
    return table(heads, rows)


TABLES = {
    "cases": cost_table,
    "attacks": attack_table,
    "population": population_table,
    "accuracy": accuracy_table,
}
"""Every part of the report, by the table that shows it."""


def markdown(report):
    """The tables of all parts that were measured."""
    shown = [show(report[part]) for part, show in TABLES.items() if report.get(part)]
    return "\n\n".join("\n".join(lines) for lines in shown) + "\n"


def measured(arguments):
    """Each part that is asked for."""
    data, seed = pd.read_csv(arguments.data, dtype=str), arguments.seed
    parts = {
        "cases": lambda: cost(data, arguments.sites, arguments.repeats, seed),
        "attacks": lambda: attacks(data, arguments.trials, seed),
    }
    if arguments.networks is not None:
        alarm = arguments.networks / "alarm.bif.gz"
        parts["population"] = lambda: population_attacks(read_bif(alarm), seed)
        parts["accuracy"] = lambda: accuracy(arguments.networks, arguments.sites, arguments.samples)
    return {part: measure() for part, measure in parts.items() if part in arguments.parts}


def main() -> None:
    options = parser(__doc__, seed=0)
    options.add_argument("data", type=Path)
    options.add_argument("--sites", type=int, default=10)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--trials", type=int, default=100)
    options.add_argument("--networks", type=Path)
    options.add_argument("--samples", type=int, default=5)
    options.add_argument("--parts", nargs="+", choices=list(TABLES), default=list(TABLES))
    arguments = options.parse_args()
    kept = arguments.out and arguments.out.with_suffix(".json")
    before = json.loads(kept.read_text("utf-8")) if kept and kept.exists() else {}
    found = measured(arguments)
    report = {part: found.get(part, before.get(part, [])) for part in TABLES}
    print(markdown(report))
    write_report(arguments.out, "verdicts", report, markdown)


if __name__ == "__main__":
    main()
