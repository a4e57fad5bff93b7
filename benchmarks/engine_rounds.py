"""Milliseconds per round of an engine: three sites in processes, mutual TLS on loopback.

Run with ``python benchmarks/engine_rounds.py --out rounds.json``; the sites echo what they get.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from measuring import environment, parser, timed, write_report

from cipherdag.protocol.engines.engine import LocalEngine

SITES = ("site-1", "site-2", "site-3")
ASKED = "invite"  # an operation that sites know


def echoed(engine, *, rounds, size):
    message = os.urandom(size)
    milliseconds = []
    for _ in range(rounds):
        asked = dict.fromkeys(SITES, message)
        seconds, _, replies = timed(engine.call, ASKED, asked, timeout_s=60.0)
        milliseconds.append(1000.0 * seconds)
        if any(reply != site.encode() + b":" + message for site, reply in replies.items()):
            raise SystemExit("a reply is missing or altered")
    return {
        "rounds": rounds,
        "bytes": size,
        "median_ms": round(float(np.median(milliseconds)), 3),
        "p90_ms": round(float(np.quantile(milliseconds, 0.9)), 3),
        "max_ms": round(max(milliseconds), 3),
    }


def flare_rounds(folder, *, rounds, size):
    from loopback import LoopbackStudy

    from cipherdag.protocol.engines.flare_engine import FlareEngine

    started = time.perf_counter()
    study = LoopbackStudy.make(folder, SITES)
    seconds = {"provision_s": time.perf_counter() - started}
    with contextlib.ExitStack() as up:
        started = time.perf_counter()
        up.enter_context(study.relay())
        for name in SITES:
            own = name.encode() + b":"
            up.enter_context(study.site(name, lambda _, sent, own=own: own + sent))
        engine = FlareEngine(study.coordinator, sites=SITES, start_s=60.0)
        engine.call(ASKED, dict.fromkeys(SITES, b""), timeout_s=60.0)
        seconds["first_reply_s"] = time.perf_counter() - started
        figures = echoed(engine, rounds=rounds, size=size)
    return {**figures, **{name: round(value, 2) for name, value in seconds.items()}}


def main():
    options = parser(__doc__)
    options.add_argument("--engine", choices=["local", "nvflare"], default="nvflare")
    options.add_argument("--rounds", type=int, default=200)
    options.add_argument("--bytes", type=int, default=100_000)
    given = options.parse_args()
    load = [os.getloadavg()[0]]
    if given.engine == "local":
        handlers = {site: lambda _, m, s=site: s.encode() + b":" + m for site in SITES}
        figures = echoed(LocalEngine(handlers), rounds=given.rounds, size=given.bytes)
    else:
        with tempfile.TemporaryDirectory() as folder:
            figures = flare_rounds(Path(folder), rounds=given.rounds, size=given.bytes)
        figures["nvflare"] = version("nvflare")
    result = {
        # of the last minute, before and after: what else the machine did
        "load": [*load, os.getloadavg()[0]],
        "engine": given.engine,
        "sites": len(SITES),
        **figures,
    }
    print(json.dumps(environment() | result, indent=2))
    write_report(given.out, "engine_rounds", result)


if __name__ == "__main__":
    main()
