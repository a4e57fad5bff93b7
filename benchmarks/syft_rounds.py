"""Seconds per round of the PySyft engine: sites that echo, on the loopback interface.

Run it in PySyft's own environment (docs/engines/pysyft.md):
    python benchmarks/syft_rounds.py [--sites 2] [--rounds 50]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil
from measuring import installed, processor

from cipherdag.protocol.engines.syft import SyftEngine, SyftLink
from cipherdag.protocol.engines.syft_site import SyftSite, prepare_syft_site

SIZES = {"1 KB": 1_000, "100 KB": 100_000, "1 MB": 1_000_000, "10 MB": 10_000_000}
LONG = {"100 MB": 100_000_000}


def main() -> None:
    arguments = parse()
    versions = ", ".join(f"{name} {installed(name)}" for name in ("syft", "numpy"))
    print(f"{processor()}, {os.cpu_count()} cores; Python {sys.version.split()[0]}, {versions}")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        started = time.perf_counter()
        sites = {
            f"site-{number}": stack.enter_context(site(Path(folder) / f"site-{number}"))
            for number in range(1, arguments.sites + 1)
        }
        print(f"start of {len(sites)} Datasites: {time.perf_counter() - started:.1f} s")
        links = {
            name: SyftLink(f"http://127.0.0.1:{running.port}", running.password)
            for name, running in sites.items()
        }
        engine = stack.enter_context(contextlib.closing(SyftEngine(links)))
        print(f"first round, with the logins: {1000 * seconds(engine, sites, b''):.0f} ms")
        for name, size in SIZES.items():
            report(name, timed(engine, sites, size, arguments.rounds if size < 1e7 else 5))
        for name, size in LONG.items():
            report(name, timed(engine, sites, size, 3))
        memory = [psutil.Process(running.pid).memory_info().rss / 1e6 for running in sites.values()]
        print(f"memory of a Datasite after that: {max(memory):.0f} MB")


def site(folder):
    prepare_syft_site(folder)
    return SyftSite(
        lambda _, message: message,
        directory=folder,
        operations=frozenset({"echo"}),
        python=Path(sys.executable),
    )


def seconds(engine, sites, message):
    started = time.perf_counter()
    replies = engine.call("echo", dict.fromkeys(sites, message), timeout_s=600.0)
    assert replies == dict.fromkeys(sites, message)
    return time.perf_counter() - started


def timed(engine, sites, size, rounds):
    return [seconds(engine, sites, os.urandom(size)) for _ in range(rounds)]


def report(name, taken):
    tenth = sorted(taken)[int(0.9 * len(taken))]
    print(
        f"{name:>7}: median {1000 * statistics.median(taken):7.0f} ms, "
        f"90 % {1000 * tenth:7.0f} ms, slowest {1000 * max(taken):7.0f} ms, {len(taken)} rounds"
    )


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sites", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=50)
    return parser.parse_args()


if __name__ == "__main__":
    main()
