"""Seconds per round of the PySyft engine: sites that echo, on the loopback interface.

Run it in PySyft's own environment (docs/engines/pysyft.md):
    python benchmarks/syft_rounds.py [--sites 2] [--rounds 50] [--long-rounds 3]
        [--out rounds.json]
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil
from measuring import environment, parser, timed, write_report

from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.protocol.engines.syft import SyftEngine, SyftLink
from cipherdag.protocol.engines.syft_site import SyftSite

SIZES = {"1 KB": 1_000, "100 KB": 100_000, "1 MB": 1_000_000, "10 MB": 10_000_000}
LONG = {"100 MB": 100_000_000}


def main() -> None:
    arguments = parse()
    about, before = environment("syft"), os.getloadavg()
    print(f"{about['processor']}, {about['cores']} cores; syft {about['versions']['syft']}")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        key = Path(folder) / "coordinator.pem"
        SigningIdentity.generate().save(key)
        started = time.perf_counter()
        sites = {
            name: stack.enter_context(site(name, key))
            for name in (f"site-{number}" for number in range(1, arguments.sites + 1))
        }
        start_s = time.perf_counter() - started
        links = {name: SyftLink(f"http://127.0.0.1:{own.port}") for name, own in sites.items()}
        engine = stack.enter_context(contextlib.closing(SyftEngine(links, key=key)))
        first_s = seconds(engine, sites, b"")
        print(f"start of {len(sites)} Datasites: {start_s:.1f} s; first round: {first_s:.1f} s")
        sizes = {}
        for name, size in SIZES.items():
            rounds = arguments.rounds if size < 1e7 else 5
            sizes[name] = report(name, echoed(engine, sites, size, rounds))
        memory = {"after 10 MB": memory_mb(sites)}
        for name, size in LONG.items() if arguments.long_rounds else ():
            sizes[name] = report(name, echoed(engine, sites, size, arguments.long_rounds))
            memory[f"after {name}"] = memory_mb(sites)
        print(f"memory of a Datasite, MB: {memory}")
    figures = {"sites": len(sites), "start_s": round(start_s, 2), "first_s": round(first_s, 2)}
    figures |= {"rounds": sizes, "memory_mb": memory, "environment": about}
    load = {"load_before": before, "load_after": os.getloadavg()}
    write_report(arguments.out, "syft_rounds", figures | load)


def site(name, key):
    return SyftSite(
        lambda _, message: message,
        name=name,
        coordinator=SigningIdentity.load(key).public,
        log=key.with_name(f"{name}.log"),
        operations=frozenset({"echo"}),
        python=Path(sys.executable),
    )


def seconds(engine, sites, message):
    asked = dict.fromkeys(sites, message)
    wall, _, replies = timed(engine.call, "echo", asked, timeout_s=600.0)
    assert replies == asked
    return wall


def echoed(engine, sites, size, rounds):
    return [seconds(engine, sites, os.urandom(size)) for _ in range(rounds)]


def memory_mb(sites):
    return round(max(psutil.Process(own.pid).memory_info().rss for own in sites.values()) / 1e6)


def report(name, taken):
    figures = {
        "rounds": len(taken),
        "median_ms": round(1000 * statistics.median(taken), 1),
        "p90_ms": round(1000 * sorted(taken)[int(0.9 * len(taken))], 1),
        "max_ms": round(1000 * max(taken), 1),
    }
    print(
        f"{name:>7}: median {figures['median_ms']:7.0f} ms, 90 % {figures['p90_ms']:7.0f} ms, "
        f"slowest {figures['max_ms']:7.0f} ms, {len(taken)} rounds"
    )
    return figures


def parse():
    options = parser(__doc__)
    options.add_argument("--sites", type=int, default=2)
    options.add_argument("--rounds", type=int, default=50)
    options.add_argument("--long-rounds", type=int, default=3, help="of 100 MB; may be 0")
    return options.parse_args()


if __name__ == "__main__":
    main()
