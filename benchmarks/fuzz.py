"""Feeds hostile bytes to every decoder, and stops at anything but a named error.

python benchmarks/fuzz.py --inputs 200000 --out fuzz.json
"""

from __future__ import annotations

import logging
import resource
import sys
from pathlib import Path

from measuring import parser, timed, write_report

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from fuzzing import attack, targets


def main() -> None:
    options = parser(__doc__, seed=1)
    options.add_argument("--inputs", type=int, default=200_000)
    arguments = options.parse_args()
    logging.getLogger("cipherdag.site").setLevel(logging.CRITICAL)
    found = targets()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, _, refused = timed(attack, arguments.inputs, arguments.seed, found)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{arguments.inputs} inputs over {len(found)} decoders in {seconds:.0f} s")
    print(f"only named errors; peak memory grew by {grown / 1024:.0f} MiB")
    report = {
        "inputs": arguments.inputs,
        "seed": arguments.seed,
        "decoders": len(found),
        "refused": refused,
        "seconds": seconds,
        "peak_memory_growth_kib": grown,
    }
    write_report(arguments.out, "fuzz", report)


if __name__ == "__main__":
    main()
