"""Feeds hostile bytes to every decoder, and stops at anything but a named error.

python benchmarks/fuzz.py --inputs 200000 --out fuzz.json
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
import time
from pathlib import Path

from measuring import environment

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from fuzzing import attack, targets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    logging.getLogger("cipherdag.site").setLevel(logging.CRITICAL)
    found = targets()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    refused = attack(arguments.inputs, arguments.seed, found)
    seconds = time.perf_counter() - started
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{arguments.inputs} inputs over {len(found)} decoders in {seconds:.0f} s")
    print(f"only named errors; peak memory grew by {grown / 1024:.0f} MiB")
    report = {
        "benchmark": "fuzz",
        "inputs": arguments.inputs,
        "seed": arguments.seed,
        "decoders": len(found),
        "refused": refused,
        "seconds": seconds,
        "peak_memory_growth_kib": grown,
        "environment": environment(),
    }
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
