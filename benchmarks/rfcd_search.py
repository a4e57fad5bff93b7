"""RFcd's searches side by side: how often each misses the best worst-case regret that any found.

    python benchmarks/rfcd_search.py --out benchmarks/results/rfcd_search.json

Linear models with two neighbours a variable, or three from 15 variables on, the same graph and
other weights at every site. Answers are summed in the clear, so rounds and values are those of
every protection; processor time is that of all sites and one coordinator.
"""

from __future__ import annotations

import sys
from pathlib import Path

from measuring import parser, timed, write_report
from rfcd import driven

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.rfcd.algorithm import RFcd, Searching

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from regretting import gaussian, linear_sites, scored

SEARCHES = {
    "best-first, 3 kept": RFcd(),
    "best-first, 10 kept": RFcd(searching=Searching(kept=10)),
    "Algorithm 1, b = 10": RFcd(searching=Searching(search="beam")),
}
MISSED = 0.01
COHORTS = ((3, 200), (3, 1000), (5, 1000), (3, 5000))
# variables, sites, rows a site, seeds
PROBLEMS = [
    *((p, n, rows, 8) for p in (6, 8, 10) for n, rows in COHORTS),
    (15, 5, 1000, 4),
    (20, 5, 1000, 4),
]  # fmt: skip


def main() -> None:
    arguments = parser(__doc__).parse_args()
    every = [
        problem(p, n_sites, rows, seed)
        for p, n_sites, rows, seeds in PROBLEMS
        for seed in range(seeds)
    ]
    figures = {"problems": len(every)}
    for name in SEARCHES:
        own = [found[name] for found in every]
        beyond = [f["regret"] - min(o["regret"] for o in g.values())
                  for f, g in zip(own, every, strict=True)]  # fmt: skip
        figures[name] = {
            "missed": sum(excess > MISSED for excess in beyond),
            "largest_excess": max(beyond),
            **{key: round(sum(f[key] for f in own), 1) for key in ("rounds", "values", "cpu_s")},
        }
        print(name, figures[name], flush=True)
    write_report(arguments.out, "rfcd_search", figures)


def problem(p, n_sites, rows, seed):
    """Every search on one problem."""
    _, tables = linear_sites(p, n_sites, rows, seed, degree=3.0 if p >= 15 else 2.0)
    scores = gaussian(tables)
    found = {}
    for name, algorithm in SEARCHES.items():
        asked = []
        sites = [scored(own) for own in scores]
        asking = noting(algorithm.ask(Facts(p, n_sites)), asked)
        _, cpu, outcome = timed(driven, asking, sites)
        found[name] = {"regret": outcome.regret, "rounds": len(asked), "cpu_s": cpu,
                       "values": sum(e.length for q in asked for e in q.encodings)}  # fmt: skip
    return found


def noting(asking, asked):
    """The same search; its questions are noted."""
    question = next(asking)
    try:
        while True:
            asked.append(question)
            question = asking.send((yield question))
    except StopIteration as finished:
        return finished.value


if __name__ == "__main__":
    main()
