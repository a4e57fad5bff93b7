"""Contingency tables of a site's rows: by a database's GROUP BY, or by bitmaps of its rows.

    python benchmarks/group_by.py alarm.bif.gz --out benchmarks/results/group_by

Tables of two to five of alarm's variables, drawn at random; rows lie in a Parquet file and in a
DuckDB file. DuckDB counts each table by a query of its own, and some in one query by grouping sets,
on one thread; a site reads the rows into codes once, makes bitmaps once, and counts. All ways count
the same before a time counts. Each way runs in a process of its own, so that its peak memory is its
own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from markdown_table import table
from measuring import parser, peak_mb, write_report
from rows import alarm_schema, write_parquet

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ROWS = (1_000_000, 10_000_000)
SIZES = (2, 3, 4, 5)
MEMORY = 128 * 2**20
GROUPING_SETS = 25
"""Tables of one query."""


def main() -> None:
    arguments = parse()
    if arguments.one:
        print(json.dumps(measured(arguments)))
        return
    cases = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for rows in arguments.rows:
            files = written(arguments.network, Path(folder), rows, arguments.seed)
            cases += [case | {"rows": rows} for case in compared(arguments, files, rows)]
    figures = {"seed": arguments.seed, "tables": arguments.tables, "cases": cases}
    write_report(arguments.out, "group_by", figures, markdown)


def written(network: Path, folder: Path, rows: int, seed: int) -> dict[str, Path]:
    """Both files, the second made of the first."""
    import duckdb

    files = {kind: folder / f"{rows}.{kind}" for kind in ("parquet", "duckdb")}
    write_parquet(network, files["parquet"], rows, seed)
    with duckdb.connect(str(files["duckdb"])) as connection:
        connection.execute(f"CREATE TABLE t AS FROM '{files['parquet']}'")
    return files


def compared(arguments, files: dict[str, Path], rows: int) -> list[dict]:
    """Every way with every file, which all count the same."""
    found = []
    for kind, file in files.items():
        for way in WAYS:
            done = subprocess.run(
                [sys.executable, __file__, str(arguments.network), "--one", way, "--file", file,
                 "--tables", str(arguments.tables), "--seed", str(arguments.seed)],
                check=True, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            case = json.loads(done.stdout)
            found.append({"source": kind, "way": way} | case)
            print(rows, json.dumps(found[-1]), flush=True)
    sums = {own.pop("sum") for own in found}
    assert len(sums) == 1, "the ways count otherwise"
    return found


def measured(arguments) -> dict:
    """Processor seconds to be ready and of a table, the peak, and what the counts add up to."""
    schema = alarm_schema(arguments.network)
    levels = np.array([own.cardinality for own in schema.variables])
    rng = np.random.default_rng(arguments.seed)
    sets = [
        rng.choice(len(levels), SIZES[k % len(SIZES)], replace=False).tolist()
        for k in range(arguments.tables)
    ]
    started = time.process_time()
    count = WAYS[arguments.one](arguments.file, schema, levels)
    ready = time.process_time()
    counts = count(sets)
    each = (time.process_time() - ready) / len(sets)
    weighted = [np.arange(1, len(own) + 1) @ own for own in counts]
    return {
        "ready": ready - started, "seconds_each": each, "peak_mb": peak_mb(),
        "sum": str([int(own) for own in weighted]),
    }  # fmt: skip


def by_query(file: Path, schema, levels) -> Callable:
    """One query for every table."""
    return grouped(file, schema, levels, 1)


def by_grouping_sets(file: Path, schema, levels) -> Callable:
    """One query for some tables."""
    return grouped(file, schema, levels, GROUPING_SETS)


def grouped(file: Path, schema, levels, together: int) -> Callable:
    import duckdb

    if file.suffix == ".duckdb":
        connection, source = duckdb.connect(str(file), read_only=True), "t"
    else:
        connection, source = duckdb.connect(), f"'{file}'"
    connection.execute("SET threads = 1")
    places = [{name: k for k, name in enumerate(own.categories)} for own in schema.variables]

    def count(sets: list[list[int]]) -> list[NDArray[np.int64]]:
        found = []
        for start in range(0, len(sets), together):
            part = sets[start : start + together]
            tables = [np.zeros(levels[own].prod(), dtype=np.int64) for own in part]
            used = sorted({v for own in part for v in own})
            names = {v: f'"{schema.names[v]}"' for v in used}
            groups = ", ".join(f"({', '.join(names[v] for v in own)})" for own in part)
            listed = ", ".join(names.values())
            query = (  # grouping() tells of a row which set it is of
                f"SELECT grouping({listed}), {listed}, count(*) FROM {source} "
                f"GROUP BY GROUPING SETS ({groups})"
            )
            marks = {
                sum((v not in own) << (len(used) - 1 - k) for k, v in enumerate(used)): n
                for n, own in enumerate(part)
            }
            for mark, *cells, rows in connection.execute(query).fetchall():
                own = part[marks[mark]]
                at = [places[v][cells[used.index(v)]] for v in own]
                tables[marks[mark]][np.ravel_multi_index(at, tuple(levels[own]))] += rows
            found += tables
        return found

    return count


def by_bitmaps(file: Path, schema, levels) -> Callable:
    """The site's own way: read once, count the bits."""
    import torch

    from cipherdag.sites.compute.counter import DiscreteColumns
    from cipherdag.sites.compute.device import PROCESSOR
    from cipherdag.sites.table.site_table import load_table

    torch.set_num_threads(1)
    codes = load_table(file, schema).codes
    columns = DiscreteColumns(codes, PROCESSOR, memory_bytes=MEMORY, levels=levels)

    def count(sets: list[list[int]]) -> list[NDArray[np.int64]]:
        found = {}
        for size in SIZES:
            own = [k for k, of in enumerate(sets) if len(of) == size]
            if own:
                counts = [c for _, c in columns.whole_tables(np.array([sets[k] for k in own]))]
                ends = np.cumsum([levels[sets[k]].prod() for k in own])[:-1]
                found |= dict(zip(own, np.split(np.concatenate(counts), ends), strict=True))
        return [found[k] for k in range(len(sets))]

    return count


WAYS: dict[str, Callable] = {
    "GROUP BY": by_query,
    "grouping sets": by_grouping_sets,
    "bitmaps": by_bitmaps,
}


def markdown(report: dict) -> str:
    """One row per way."""
    rows = [
        [f"{case['rows']:,}", case["source"], case["way"], f"{case['ready']:.1f} s",
         f"{case['seconds_each'] * 1e3:.2f} ms", f"{case['peak_mb']:.0f} MB"]
        for case in report["cases"]
    ]  # fmt: skip
    head = ("rows", "source", "way", "until ready", "a table", "peak")
    intro = f"Processor time on one thread, {report['tables']} tables of 2 to 5 of alarm's columns:"
    return "\n".join([intro, "", *table(head, rows)]) + "\n"


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("network", type=Path, help="ALARM's .bif or .bif.gz")
    options.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    options.add_argument("--tables", type=int, default=100)
    options.add_argument("--folder", type=Path, help="where files lie meanwhile")
    options.add_argument("--one", choices=WAYS, help=HIDDEN)
    options.add_argument("--file", type=Path, help=HIDDEN)
    return options.parse_args()


HIDDEN = "of one measurement, in a process of its own"

if __name__ == "__main__":
    main()
