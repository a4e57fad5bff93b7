"""One search by one program in a process of its own, which prints what it took as JSON.

    python benchmarks/whole_process_programs.py '{"program": "causal-learn PC, G2", ...}'

`whole_process.py` calls it. Nothing but the standard library is imported before the program's own
import is timed, so that no program pays for another.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from pathlib import Path

ALPHA, LARGEST = 0.01, 3
"""Level and largest conditioning set of every PC: FedPC's defaults."""


def main() -> None:
    case = json.loads(sys.argv[1])
    limit = int(case["limit"])
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    warnings.simplefilter("ignore")
    print(json.dumps(measured(case)))


def measured(case: dict) -> dict:
    """Processor seconds by part, and the peak of memory when the search has ended.

    ``whole`` is the time from the start of the interpreter to the end of the search.
    """
    load, prepare, search = PROGRAMS[case["program"]]
    start = time.process_time()
    load()
    imported = time.process_time()
    ready = prepare(Path(case["data"]), case["sites"])
    prepared = time.process_time()
    found = search(ready)
    whole, peak = time.process_time(), peak_mb()
    return {
        "start": start,
        "import": imported - start,
        "read": prepared - imported,
        "search": whole - prepared,
        "whole": whole,
        "peak_mb": peak,
        **found,
    }


def peak_mb() -> float:
    """Most memory of this process; `resource` would tell that of the process that started it."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return int(next(own for own in lines if own.startswith("VmHWM")).split()[1]) * 1024 / 1e6


def numbers_of(path: Path):
    """Rows of numbers, shape (n, p)."""
    import numpy as np

    return np.load(path)


def codes_of(path: Path):
    """Categories as whole numbers from 0, shape (n, p)."""
    import pandas as pd

    table = pd.read_csv(path, dtype=str)
    return table.apply(lambda own: own.factorize(sort=True)[0]).to_numpy()


def load_cipherdag() -> None:
    from cipherdag import Federation, FedPC  # noqa: F401


def federation_of(path: Path, sites: int):
    """The rows, split over the sites; numbers come as a table with a schema, as in a hospital."""
    from cipherdag import Federation

    if path.suffix != ".npy":
        return Federation.split(path, sites, device="cpu")
    import pandas as pd

    from cipherdag import Schema
    from cipherdag.sites.table.column import Column

    values = numbers_of(path)
    names = [f"v{k:04d}" for k in range(values.shape[1])]
    schema = Schema(tuple(Column(name, "continuous") for name in names))
    return Federation.split(pd.DataFrame(values, columns=names), sites, schema=schema, device="cpu")


def fedpc(federation) -> dict:
    from cipherdag import FedPC

    asked = FedPC(alpha=ALPHA, max_cond_size=LARGEST)
    return cost_of(federation.run(asked, seed=0))


def cost_of(result) -> dict:
    """What a run sent: all sites together, and the site that sends most, which deals keys."""
    sent = result.bytes_sent_per_site.values()
    return {
        "mb_all": sum(sent) / 1e6,
        "mb_dealer": max(sent) / 1e6,
        "rounds": len(result.rounds),
        "edges": len(result.finding.graph.edges),
    }


def load_causal_learn() -> None:
    from causallearn.search.ConstraintBased.PC import pc  # noqa: F401


def causal_learn(test: str):
    """PC-stable with a test."""

    def search(rows) -> dict:
        from causallearn.search.ConstraintBased.PC import pc

        found = pc(rows, ALPHA, test, stable=True, show_progress=False, max_k=LARGEST)
        return {"edges": int((found.G.graph != 0).sum()) // 2}

    return search


def load_pgmpy() -> None:
    import pandas as pd  # noqa: F401
    from pgmpy.causal_discovery import PC  # noqa: F401


def pgmpy(codes) -> dict:
    """PC-stable with the chi-square test, one process."""
    import pandas as pd
    from pgmpy.causal_discovery import PC

    table = pd.DataFrame(codes, columns=[str(v) for v in range(codes.shape[1])])
    search = PC(
        variant="stable",
        ci_test="chi_square",
        significance_level=ALPHA,
        max_cond_vars=LARGEST,
        n_jobs=1,
        show_progress=False,
    )
    return {"edges": len({frozenset(own) for own in search.fit(table).causal_graph_.edges()})}


def of_codes(path: Path, _: int):
    return codes_of(path)


def of_numbers(path: Path, _: int):
    return numbers_of(path)


PROGRAMS = {
    "FedPC by bits": (load_cipherdag, federation_of, fedpc),
    "causal-learn PC, G2": (load_causal_learn, of_codes, causal_learn("gsq")),
    "causal-learn PC, Fisher-z": (load_causal_learn, of_numbers, causal_learn("fisherz")),
    "pgmpy PC, chi2": (load_pgmpy, of_codes, pgmpy),
}
"""Of every program its import, what reads the rows, and the search."""

if __name__ == "__main__":
    main()
