"""What every benchmark has in common: options, times, memory, finished cases and its report.

Scripts that fill tables, data sets x methods x samples, share `run_cases`: a case is a ``data``, a
``method`` and a ``sample``, and what was measured of it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import signal
import statistics
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markdown_table import table

from cipherdag.program.versions import package_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from cipherdag import Run

PACKAGES = (
    "cipherdag",
    "torch",
    "numpy",
    "scipy",
    "cryptography",
    "tenseal",
    "causal-learn",
    "pgmpy",
    "gcastle",
)
PROTECTIONS = ("none", "masking", "bfv")
MOST_SHOWN = 10
"""Samples that a table lists one by one."""


def parser(doc: str, *, seed: int | None = None) -> argparse.ArgumentParser:
    """The options of a script: --out, and --seed where there is a default for it."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--out", type=Path, help="file for the figures, JSON; tables lie beside it")
    if seed is not None:
        made.add_argument("--seed", type=int, default=seed)
    return made


def write_report(
    out: Path | None,
    benchmark: str,
    figures: Mapping[str, object],
    markdown: Callable[[dict], str] | None = None,
) -> None:
    """Write ``<out>.json`` and, where there are tables, ``<out>.md``; nothing without --out."""
    if out is None:
        return
    report = {"benchmark": benchmark, "environment": environment(), **figures}
    out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report, indent=1)
    out.with_suffix(".json").write_text(text + "\n", "utf-8")
    if markdown is not None:
        out.with_suffix(".md").write_text(markdown(json.loads(text)), "utf-8")


def read_lines(path: Path) -> list[dict]:
    """The finished cases of a script that can be stopped and started; none without the file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def add_line(path: Path, case: Mapping[str, object]) -> None:
    """Write a finished case down."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(case) + "\n")


def run_cases(
    options: argparse.ArgumentParser,
    benchmark: str,
    *,
    data: Iterable[str],
    methods: Iterable[str],
    measure: Callable[[Path, dict], dict],
    markdown: Callable[[dict], str],
) -> None:
    """Measure what the command line asks for and is not done yet, and report all of it.

    Args:
        options: What `parser` makes, and what the script adds.
        benchmark: Its name, which the file of finished cases has, too.
        data: Names of data sets; the first samples of all are run first.
        methods: Names of methods.
        measure: Gives the figures of a case, from the folder of data and the case.
        markdown: The tables.
    """
    options.add_argument("folder", type=Path, nargs="?")
    options.add_argument("--data", nargs="+", choices=list(data), default=list(data))
    options.add_argument("--methods", nargs="+", choices=list(methods), default=list(methods))
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options.add_argument("--limit", type=float, default=600.0, help="processor seconds of one case")
    options.add_argument("--budget", type=float, default=float("inf"), help="seconds of all")
    options.add_argument("--lines", type=Path, default=Path(f"{benchmark}.jsonl"))
    options.add_argument("--report", action="store_true", help="print the tables and run nothing")
    arguments = options.parse_args()
    if arguments.folder is None and not arguments.report:
        options.error("a run needs DATA_FOLDER")
    cases = read_lines(arguments.lines)
    for case in () if arguments.report else _left(arguments, {case_key(own) for own in cases}):
        cases.append(case | _limited(arguments.limit, measure, arguments.folder, case))
        add_line(arguments.lines, cases[-1])
        print(cases[-1], flush=True)
    figures = {"cases": sorted(cases, key=case_key)}
    write_report(arguments.out, benchmark, figures, markdown)
    if arguments.report:
        print(markdown(figures))


def case_key(case: Mapping[str, object]) -> tuple:
    """What no two cases share."""
    return case["data"], case["method"], case["sample"]


def figure_table(
    cases: Sequence[dict], data: Iterable[str], methods: Iterable[str], field: str, digits: int
) -> list[str]:
    """One figure, data down and methods across: the median, and each sample or their range."""
    shown = [own for own in methods if any(c["method"] == own and field in c for c in cases)]
    rows = []
    for name in data:
        own = [[c for c in cases if (c["data"], c["method"]) == (name, m)] for m in shown]
        rows.append([name, *(_samples(found, field, digits) for found in own)])
    return table(["data", *shown], rows)


def _samples(cases: Sequence[dict], field: str, digits: int) -> str:
    values = [case[field] for case in cases if field in case]
    if not values:
        limits = [case["given_up_after"] for case in cases if "given_up_after" in case]
        return f"given up after {limits[0]:.0f} s" if limits else ""
    median = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return median
    if len(values) > MOST_SHOWN:
        ends = f"{min(values):.{digits}f} to {max(values):.{digits}f}"
        return f"{median} ({ends} in {len(values)} samples)"
    return f"{median} ({', '.join(f'{value:.{digits}f}' for value in values)})"


def _left(arguments, done: set[tuple]) -> Iterator[dict]:
    """The cases that are not done, until the budget is spent."""
    started = time.monotonic()
    for number in arguments.seeds:
        for name in arguments.data:
            for method in arguments.methods:
                case = {"data": name, "method": method, "sample": number}
                if case_key(case) not in done and time.monotonic() - started < arguments.budget:
                    yield case


def _limited(limit: float, measure: Callable[..., dict], *what) -> dict:
    """A case in a process of its own, given up after so many processor seconds."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def run() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
        theirs.send(measure(*what))

    process = context.Process(target=run)
    process.start()
    theirs.close()  # so that the end of a process that failed is heard
    try:
        return ours.recv()
    except EOFError:
        process.join()
        if process.exitcode != -signal.SIGXCPU:
            raise
        return {"given_up_after": limit}
    finally:
        process.join()


def timed(function, *arguments, **options):
    """Wall seconds, processor seconds of this process, and what the function returns."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function(*arguments, **options)
    return time.perf_counter() - wall, time.process_time() - cpu, result


def bytes_per_site(result: Run[Any]) -> int:
    """What the site that sent most sent in a whole run."""
    return max(result.bytes_sent_per_site.values())


def environment(*more: str) -> dict[str, object]:
    """Processor, cores, Python, the code's revision, and versions of packages and some more."""
    versions = package_versions((*PACKAGES, *more))
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": versions.pop("python"),
        "revision": revision(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
    }


def revision() -> str:
    """The revision that is measured; empty outside a checkout."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(asked, check=False, capture_output=True, text=True).stdout.strip()


def processor() -> str:
    """The processor's name where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def peak_mb() -> float:
    """Most memory that this program has had so far, in MB.

    Linux passes the peak that `resource` tells on to the programs that a process starts, so the
    kernel's own figure is read.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(li for li in status.read_text("utf-8").splitlines() if li.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # macOS counts bytes
