"""Every fault that a study of months meets, many times, at moments drawn at random.

    OMP_NUM_THREADS=1 python benchmarks/faults.py [--repetitions 50] [--faults NAME ...]

Each repetition ends in the graph of a run without faults, or in a named error that says what to do.
Afterwards nothing is lost: every ledger verifies, the sites read the result of an earlier run, a
run that was cut short goes on by `--resume` to the same graph where the sites hold its keys, and
the next run finds the same graph. Whatever else happens is a finding, and the exit code is 1.
Finished repetitions are read from --lines. --out writes JSON and Markdown.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import fault_cases
import fault_doors
import numpy as np
from fault_studies import Folders, Processes, Threads, enrolled
from markdown_table import table
from measuring import add_line, parser, read_lines, write_report

BLOCK = 10
"""Repetitions over one set-up, after which the study is made anew: its ledgers have grown."""


@contextlib.contextmanager
def over(kind, work):
    """A study over processes or threads, which all repetitions of a block share."""
    study = kind(work / "study")
    try:
        yield study
    finally:
        study.close()


@contextlib.contextmanager
def copied(work):
    """What makes a study of copied folders for each repetition."""
    template = work / "template"
    _, _, expected = enrolled(template)
    number = iter(range(10**6))
    yield lambda: Folders(template, work / f"copy-{next(number)}", expected)


@contextlib.contextmanager
def empty(work):
    """An empty folder for each repetition."""
    yield lambda: Path(tempfile.mkdtemp(dir=work))


STUDIES = {
    "processes": lambda work: over(Processes, work),
    "threads": lambda work: over(Threads, work),
    "copies": copied,
    "folders": empty,
}
FAULTS = {
    "certificates are renewed": ("processes", fault_cases.renewed),
    "a folder is restored from a backup": ("copies", fault_cases.restored),
    "a copy of a site runs": ("copies", fault_cases.cloned),
    "a clock is wrong by days": ("copies", fault_doors.misdated),
    "a proxy cuts connections": ("processes", fault_cases.cut),
    "an address mapping is forgotten": ("threads", fault_cases.forgotten),
    "a fifth of packets is lost": ("processes", fault_cases.lossy),
    "a site's machine sleeps": ("processes", fault_cases.asleep),
    "another program has the port": ("folders", fault_doors.held),
    "another study has the port": ("folders", fault_doors.doubled),
    "a stranger answers `site check`": ("folders", fault_doors.strange),
}


def main():
    options = parser(__doc__)
    options.add_argument("--repetitions", type=int, default=50)
    options.add_argument("--faults", nargs="+", choices=list(FAULTS), default=list(FAULTS))
    options.add_argument("--lines", type=Path, default=Path("faults.jsonl"))
    options.add_argument("--report", action="store_true", help="print the table and run nothing")
    given = options.parse_args()
    lines = read_lines(given.lines)
    done = {(line["fault"], line["repetition"]) for line in lines}
    for first in () if given.report else range(0, given.repetitions, BLOCK):
        numbers = range(first, min(first + BLOCK, given.repetitions))
        for kind in STUDIES:
            left = [
                (name, number)
                for number in numbers
                for name in given.faults
                if FAULTS[name][0] == kind and (name, number) not in done
            ]
            for line in block(kind, left):
                add_line(given.lines, line)
                lines.append(line)
                print(line, flush=True)
    figures = {"faults": summary(lines)}
    write_report(given.out, "faults", figures, markdown)
    print(markdown(figures))
    sys.exit(any(map(finding, lines)))


def block(kind, left):
    """The repetitions of one kind of study."""
    if not left:
        return
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, STUDIES[kind](Path(folder)) as on:
        for name, number in left:
            rng = np.random.default_rng((list(FAULTS).index(name), number))
            begun = time.perf_counter()
            met = FAULTS[name][1](on, rng)
            seconds = round(time.perf_counter() - begun, 2)
            yield {"fault": name, "repetition": number, **met, "seconds": seconds}


def finding(line):
    """Whether a repetition ended in neither the same graph nor a named error, or lost something."""
    ends = line["end"], line.get("resumed", ""), line.get("during", "")
    odd = any(end.startswith(("UNNAMED", "ANOTHER")) or "without" in end for end in ends)
    odd = odd or line["end"] != line.get("must", line["end"])
    return odd or line["lost"] != "" or line["next"] not in ("same graph", fault_doors.WORKS)


def summary(lines):
    """Of every fault: how often it ended in what, what came next, and what was lost."""
    rows = []
    for name in FAULTS:
        ended = [line for line in lines if line["fault"] == name]
        if ended:
            met = {key: counted(ended, key) for key in ("end", "resumed", "next")}
            seconds = round(statistics.median(line["seconds"] for line in ended), 2)
            rows.append(
                {"fault": name, "repetitions": len(ended), **met}
                | {"findings": sum(map(finding, ended)), "seconds": seconds}
            )
    return rows


def counted(lines, key):
    """How often each value occurs, the commonest first."""
    return dict(Counter(line[key] for line in lines if key in line).most_common())


def markdown(figures):
    """How often each fault ended in what."""
    head = ["fault", "repetitions", "ended in", "then `--resume`", "findings", "median seconds"]
    rows = [
        [
            *(row["fault"], row["repetitions"], in_words(row["end"]), in_words(row["resumed"])),
            *(row["findings"], f"{row['seconds']:.1f}"),
        ]
        for row in figures["faults"]
    ]
    return "\n".join(table(head, rows)) + "\n"


def in_words(counts):
    """The counts of a cell of the table."""
    return ", ".join(f"{what} {count}" for what, count in counts.items())


if __name__ == "__main__":
    main()
