"""How often FedCMFS finds a wrong set although every test is right, by both retrieval rules.

    PYTHONPATH=tests/support python benchmarks/fedcmfs_exactness.py --out FILE

Tests are answered by d-separation in random DAGs, so that only the search can be wrong.
"""

from __future__ import annotations

import numpy as np
from driving import drive, respondent
from measuring import parser, write_report
from oracle import OracleTest, random_dag

from cipherdag import FedCMFS
from cipherdag.algorithms.algorithm import Facts

PERCENTS = ((100, 100), (30, 30), (10, 10))


def main() -> None:
    options = parser(__doc__, seed=2027)
    options.add_argument("--dags", type=int, default=200)
    arguments = options.parse_args()
    rows = [
        {"retrieval": retrieval, "k1": k1, "k2": k2}
        | wrong_sets(FedCMFS(k1=k1, k2=k2, retrieval=retrieval, max_cond_size=None), arguments)
        for retrieval in ("interchangeable", "paper")
        for k1, k2 in PERCENTS
    ]
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    figures = {"dags": arguments.dags, "rows": rows, "seed": arguments.seed}
    write_report(arguments.out, "fedcmfs_exactness", figures)


def wrong_sets(algorithm: FedCMFS, arguments) -> dict[str, int]:
    """DAGs with a wrong set for some label, and members too many and too few in all."""
    rng = np.random.default_rng(arguments.seed)
    wrong = extra = missing = 0
    for _ in range(arguments.dags):
        n = int(rng.integers(3, 12))
        dag = random_dag(n, float(rng.uniform(1, 3)), rng)
        labels = rng.choice(n, int(rng.integers(1, n // 2 + 1)), replace=False)
        asking = algorithm.ask(Facts(n, 3, labels=tuple(sorted(labels.tolist()))))
        outcome, _ = drive(asking, [respondent(OracleTest(dag)) for _ in range(3)])
        exact = True
        for label, own in outcome.by_label.items():
            found, true = {*own.features, *own.labels}, set(np.flatnonzero((dag | dag.T)[label]))
            extra, missing = extra + len(found - true), missing + len(true - found)
            exact = exact and found == true
        wrong += not exact
    return {"wrong_dags": wrong, "extra": extra, "missing": missing}


if __name__ == "__main__":
    main()
