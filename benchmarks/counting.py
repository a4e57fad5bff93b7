"""Nanoseconds per row and table: contingency counts here, and by whom others count.

    python benchmarks/counting.py --out benchmarks/results/counting

Sets of two to five of alarm's variables, drawn at random. All ways count the same rows, one table
per set, on one thread, in processor time, the quickest of some turns; before a time counts, the
counts are compared. What makes a data set ready to be counted is in it. pgmpy and bnlearn's
``table`` (by R) join where they are installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from markdown_table import table
from measuring import parser, timed, write_report

from cipherdag.sites.compute.counter import DiscreteColumns
from cipherdag.sites.compute.device import PROCESSOR

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ALARM = Path(__file__).parent / "data" / "alarm_5000.csv.gz"
ROWS = (1_000, 10_000, 100_000)
SIZES = (2, 3, 4, 5)
MEMORY = 128 * 2**20
MISSING = 0.01
"""Share of values that are, where some are."""
R_COUNTS = """
library(bnlearn)
data <- read.csv("data.csv", colClasses = "factor"); sets <- as.matrix(read.csv("sets.csv"))
start <- proc.time()[["user.self"]]
for (k in seq_len(nrow(sets))) table(data[, sets[k, ] + 1])
cat(proc.time()[["user.self"]] - start)
"""


def main() -> None:
    arguments = parse()
    torch.set_num_threads(1)
    codes, levels = alarm_codes()
    rng = np.random.default_rng(arguments.seed)
    cases = []
    for rows in arguments.rows:
        drawn = codes[rng.integers(0, len(codes), rows)]
        gaps = np.where(rng.random(drawn.shape) < MISSING, -1, drawn)
        for size in SIZES:
            drawn_sets = [
                rng.choice(len(levels), size, replace=False) for _ in range(arguments.tables)
            ]
            sets, case = np.array(drawn_sets), {"rows": rows, "variables": size}
            case["cells"] = float(levels[sets].prod(axis=1).mean())
            case["ns"] = compared(drawn, levels, sets, arguments.repeats)
            case["ns"]["cipherdag, missing"] = nanoseconds(
                cipherdag_counts, gaps, levels, sets, arguments.repeats
            )[0]
            cases.append(case)
            print(json.dumps(case), flush=True)
    write_report(
        arguments.out,
        "counting",
        {"seed": arguments.seed, "tables": arguments.tables, "cases": cases},
        markdown,
    )


def alarm_codes() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Codes, shape (n, p), and levels, shape (p,)."""
    data = pd.read_csv(ALARM, dtype=str)
    codes = np.column_stack([np.unique(data[own], return_inverse=True)[1] for own in data])
    return codes.astype(np.int64), codes.max(axis=0).astype(np.int64) + 1


def compared(codes, levels, sets, repeats: int) -> dict[str, float]:
    """Nanoseconds of every way, which all count the same."""
    ways: dict[str, Callable] = {"cipherdag": cipherdag_counts, "numpy": numpy_counts}
    ways["pandas"] = pandas_counts
    if (pgmpy := pgmpy_counts()) is not None:
        ways["pgmpy"] = pgmpy
    found, expected = {}, None
    for name, way in ways.items():
        found[name], counts = nanoseconds(
            way, codes, levels, sets[: slow(name, len(sets))], repeats
        )
        expected = counts if expected is None else expected
        assert np.array_equal(counts, expected[: len(counts)]), f"{name} counts otherwise"
    if bnlearn_is_there():
        found["bnlearn"] = bnlearn_seconds(codes, sets) / codes.shape[0] / len(sets) * 1e9
    return found


def slow(name: str, tables: int) -> int:
    """How many tables are enough to time a way that makes one object per table."""
    return tables if name == "cipherdag" else max(tables // 20, 1)


def nanoseconds(way, codes, levels, sets, repeats: int) -> tuple[float, NDArray[np.int64]]:
    """Per row and table, and the counts of all tables, one after the other."""
    runs = [timed(way, codes, levels, sets) for _ in range(repeats)]
    return min(cpu for _, cpu, _ in runs) / len(codes) / len(sets) * 1e9, runs[0][2]


def cipherdag_counts(codes, levels, sets) -> NDArray[np.int64]:
    columns = DiscreteColumns(codes, PROCESSOR, memory_bytes=MEMORY, levels=levels)
    return np.concatenate([counts for _, counts in columns.whole_tables(sets)])


def numpy_counts(codes, levels, sets) -> NDArray[np.int64]:
    found = []
    columns = np.ascontiguousarray(codes.T)
    for own in sets:
        packed = np.ravel_multi_index(tuple(columns[own]), tuple(levels[own]))
        found.append(np.bincount(packed, minlength=levels[own].prod()))
    return np.concatenate(found)


def pandas_counts(codes, levels, sets) -> NDArray[np.int64]:
    data = pd.DataFrame(codes)
    found = []
    for own in sets:
        cells = data.groupby(own.tolist()).size()
        places = np.ravel_multi_index(tuple(zip(*cells.index, strict=True)), tuple(levels[own]))
        counts = np.zeros(levels[own].prod(), dtype=np.int64)
        counts[places] = cells.to_numpy()
        found.append(counts)
    return np.concatenate(found)


def pgmpy_counts() -> Callable | None:
    """As its own estimators count: `state_counts` of a variable given others."""
    try:
        from pgmpy.estimators import BaseEstimator
    except ImportError:
        return None

    def counted(codes, levels, sets) -> NDArray[np.int64]:
        data = pd.DataFrame(codes, columns=[str(v) for v in range(codes.shape[1])])
        states = {str(v): list(range(count)) for v, count in enumerate(levels.tolist())}
        own = BaseEstimator(data, state_names=states)
        tables = [own.state_counts(str(s[-1]), [str(v) for v in s[:-1]]) for s in sets]
        return np.concatenate([made.to_numpy().T.ravel().astype(np.int64) for made in tables])

    return counted


def bnlearn_is_there() -> bool:
    test = ["Rscript", "-e", "library(bnlearn)"]
    return (
        bool(shutil.which("Rscript"))
        and not subprocess.run(test, check=False, capture_output=True).returncode
    )


def bnlearn_seconds(codes, sets) -> float:
    with tempfile.TemporaryDirectory() as folder:
        pd.DataFrame(codes).to_csv(Path(folder) / "data.csv", index=False)
        pd.DataFrame(sets).to_csv(Path(folder) / "sets.csv", index=False)
        done = subprocess.run(
            ["Rscript", "-e", R_COUNTS], cwd=folder, check=True, capture_output=True, text=True
        )
    return float(done.stdout.split()[-1])


def markdown(report: dict) -> str:
    """One row per number of rows and of variables."""
    ways = list(dict.fromkeys(name for case in report["cases"] for name in case["ns"]))
    rows = [
        [f"{case['rows']:,}", case["variables"], f"{case['cells']:.0f}",
         *(f"{case['ns'][way]:.1f}" if way in case["ns"] else "" for way in ways)]
        for case in report["cases"]
    ]  # fmt: skip
    intro = "Nanoseconds of a processor per row and table, alarm's variables, one thread:"
    return "\n".join([intro, "", *table(("rows", "variables", "cells", *ways), rows)]) + "\n"


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    options.add_argument(
        "--tables", type=int, default=2000, help="a case; the others count a twentieth"
    )
    options.add_argument("--repeats", type=int, default=3)
    return options.parse_args()


if __name__ == "__main__":
    main()
