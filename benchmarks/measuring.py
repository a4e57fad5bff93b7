"""What every benchmark has in common: options, times, memory, finished cases and its report."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cipherdag.deployment.packages import package_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cipherdag import Result

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


def timed(function, *arguments, **options):
    """Wall seconds, processor seconds of this process, and what the function returns."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function(*arguments, **options)
    return time.perf_counter() - wall, time.process_time() - cpu, result


def bytes_per_site(result: Result) -> int:
    """What the site that sent most sent in a whole run."""
    return max(result.bytes_sent_per_site.values())


def same_aggregates(results: Mapping[str, Result]) -> bool:
    """Whether all protections opened the same sums in every round."""
    return len({tuple(own.aggregate for own in r.rounds) for r in results.values()}) == 1


def environment(*more: str) -> dict[str, object]:
    """Processor, cores, Python and the versions of packages, and of some more."""
    versions = package_versions((*PACKAGES, *more))
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": versions.pop("python"),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
    }


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
