"""What every benchmark says about the machine it ran on, and the memory of a process."""

from __future__ import annotations

import os
import platform
import resource
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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


def environment() -> dict[str, object]:
    """Processor, cores, Python and package versions."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {package: installed(package) for package in PACKAGES},
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


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


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
