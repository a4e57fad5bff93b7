"""What a whole search costs beside other programs: each time a fresh process, all in turns.

    python benchmarks/whole_process.py --out benchmarks/results/whole_process

FedPC by bits over sites, masked and signed, all sites in one process, beside programs that have
all rows at one place in the clear; one thread each. Alarm has the 5,000 rows of `data`, and
`numbers` are `variables.py`'s linear models with 5,000 rows. PCs have FedPC's level and largest
set. Programs take turns, A B A B. Of every process the JSON has processor seconds: the import, the
search, and the whole process up to its end (start, import, reading, search). The table has FedPC's
relative to the program's of the same turn, the most memory until then, and what all sites send, and
the one that sends most, which deals keys.
A process beyond --limit processor seconds is given up, and has no further turn; a program that is
not installed is named. The package's bytecode is compiled first, as an installer does it. Finished
processes stay in --lines, and what is there is not run again.
"""

from __future__ import annotations

import compileall
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from markdown_table import table
from measuring import add_line, parser, read_lines, write_report
from variables import numbers

import cipherdag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
ALARM = HERE / "data" / "alarm_5000.csv.gz"
OURS = "FedPC by bits"
CASES = {
    "alarm, 10 sites": (0, 10, (OURS, "causal-learn PC, G2", "pgmpy PC, chi2")),
    "50 numbers, 10 sites": (50, 10, (OURS, "causal-learn PC, Fisher-z")),
}
"""Numbers (none: alarm), sites, and programs, the first of which the others are compared with."""
COLUMNS = {
    "peak MB": ("peak_mb", 0),
    "MB sent by all": ("mb_all", 2),
    "MB of the site that sends most": ("mb_dealer", 2),
    "edges": ("edges", 0),
}


def main() -> None:
    arguments = parse()
    compileall.compile_dir(Path(cipherdag.__file__).parent, quiet=1)
    lines = read_lines(arguments.lines)
    with tempfile.TemporaryDirectory() as folder:
        for key, measure in planned(arguments, Path(folder)):
            if key in map(key_of, lines) or beyond(lines, key):
                continue
            lines.append(dict(zip(("case", "program", "turn"), key, strict=True)) | measure())
            add_line(arguments.lines, lines[-1])
            print(lines[-1], flush=True)
    report = {
        "seed": arguments.seed,
        "limit": arguments.limit,
        "load": os.getloadavg()[1],
        "cases": summaries(lines),
    }
    print(markdown(report))
    write_report(arguments.out, "whole_process", report, markdown)


def planned(arguments, folder: Path) -> Iterator[tuple[tuple[str, str, int], Callable[[], dict]]]:
    """What each process is, and what measures it; the programs of a case in turns."""
    for case in arguments.cases:
        for turn in range(arguments.turns):
            variables, sites, programs = CASES[case]
            for program in programs:
                asked = {"program": program, "sites": sites, "limit": arguments.limit}
                rows = partial(rows_of, variables, arguments.seed, folder)
                yield (case, program, turn), partial(search, asked, rows)


def key_of(line: dict) -> tuple[str, str, int]:
    return line["case"], line["program"], line["turn"]


def beyond(lines: list[dict], key: tuple[str, str, int]) -> bool:
    """Whether the program was given up, or is missing, in an earlier turn."""
    return any(key_of(own)[:2] == key[:2] and "note" in own for own in lines)


def rows_of(variables: int, seed: int, folder: Path) -> Path:
    """The file with a case's rows."""
    if not variables:
        return ALARM
    path = folder / f"{variables}.npy"
    if not path.exists():
        data, _, _ = numbers(variables, np.random.default_rng(seed))
        np.save(path, data.to_numpy())
    return path


def search(asked: dict, rows: Callable[[], Path]) -> dict:
    """Figures of one process, or a note why there are none."""
    told = json.dumps(asked | {"data": str(rows())})
    words = [sys.executable, str(HERE / "whole_process_programs.py"), told]
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=one_thread())
    if done.returncode == -signal.SIGXCPU:
        return {"note": f"given up after {asked['limit']:.0f} s"}
    last = done.stderr.strip().rpartition("\n")[2]
    if last.startswith("ModuleNotFoundError"):
        return {"note": f"not installed here: {last.rpartition(' ')[2]}"}
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def one_thread() -> dict[str, str]:
    threads = {f"{own}_NUM_THREADS": "1" for own in ("OMP", "OPENBLAS", "MKL")}
    return {**os.environ, **threads}


def summaries(lines: list[dict]) -> list[dict]:
    """Of every case and program the processes, and what the first program takes of its time."""
    found = []
    for case in CASES:
        own = [line for line in lines if line["case"] == case]
        for program in dict.fromkeys(line["program"] for line in own):
            runs = [line for line in own if line["program"] == program]
            summary = {"case": case, "program": program}
            if "note" in runs[-1]:
                found.append(summary | {"note": runs[-1]["note"]})
                continue
            first = [line for line in own if line["program"] == own[0]["program"]]
            ratios = {
                part: [
                    a[part] / b[part]
                    for a, b in zip(first, runs, strict=False)
                    if part in a and part in b
                ]
                for part in ("search", "whole")
            }
            kept = [
                {key: value for key, value in run.items() if key not in ("case", "program")}
                for run in runs
            ]
            found.append(summary | {"first_to_this": ratios, "runs": kept})
    return found


def markdown(report: dict) -> str:
    """A row for every case and program."""
    rows = []
    for case in report["cases"]:
        if "note" in case:
            rows.append([case["case"], case["program"], case["note"]])
        else:
            ratios = [spread(own, 2) for own in case["first_to_this"].values()]
            columns = [shown(case["runs"], *own) for own in COLUMNS.values()]
            rows.append([case["case"], case["program"], len(case["runs"]), *ratios, *columns])
    ratios = ["FedPC's search to it", "FedPC's whole process to it"]
    head = ["data", "search", "turns", *ratios, *COLUMNS]
    load = f"{report['load']:.0f}"
    intro = f"Medians (least to most) of processes in turns, one thread each; load {load}:"
    return "\n".join([intro, "", *table(head, rows)]) + "\n"


def shown(runs: list[dict], key: str, digits: int) -> str:
    """The median of a figure, and the ends where they are others."""
    return spread([own[key] for own in runs if key in own], digits)


def spread(values: list[float], digits: int) -> str:
    """The median, and the ends where they are others."""
    if not values:
        return ""
    middle, least, most = (
        f"{own:,.{digits}f}" for own in (statistics.median(values), min(values), max(values))
    )
    return middle if least == most else f"{middle} ({least} to {most})"


def parse():
    options = parser(__doc__, seed=0)
    options.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--limit", type=float, default=120.0, help="processor seconds of each")
    options.add_argument("--lines", type=Path, default=Path("whole_process.jsonl"))
    return options.parse_args()


if __name__ == "__main__":
    main()
