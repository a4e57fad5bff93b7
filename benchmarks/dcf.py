"""Comparisons of blinded sums: a great many that have to be right, and what one costs.

    python benchmarks/dcf.py [--count 1000000] [--batch 5000] [--out FILE]

Sums lie at an end of their interval, next to one, or anywhere, and at both ends of the domain; the
moduli are those that sums are counted in under masking and BFV, powers of two, and the largest.
"""

from __future__ import annotations

import hashlib
import statistics

import numpy as np
from measuring import parser, timed, write_report

from cipherdag.privacy.comparison.batch import COORDINATOR, Comparisons
from cipherdag.privacy.comparison.keys import ComparisonKeys, common_bytes, deal, draw_blinds
from cipherdag.privacy.comparison.verdicts import opened, pack

SESSION = hashlib.sha256(b"benchmark").digest()
MODULI = {
    "8 bits": 2**8,
    "16 bits": 2**16,
    "24 bits": 2**24 - 3,
    "BFV, 36 bits": 68719403009,
    "40 bits": 2**40,
    "masking, 56 bits": 2**56 - 5,
    "64 bits": 2**64,
}


def drawn(rng, modulus, count):
    """Sums and intervals: at, around and far from the thresholds, and at the domain's ends."""
    largest = np.uint64(modulus - 1)
    low, high = np.sort(rng.integers(0, largest, (2, count), np.uint64, endpoint=True), axis=0)
    low[0::5], high[1::5] = 0, largest
    sums = rng.integers(0, largest, count, np.uint64, endpoint=True)
    off = rng.integers(-2, 3, count).astype(np.uint64)  # wraps round like the domain's ends
    case = rng.integers(0, 5, count)
    for place, ends in ((0, low), (1, high), (2, np.where(off & np.uint64(1), largest, 0))):
        near = ends.astype(np.uint64) + off
        sums = np.where((case == place) & (near <= largest), near, sums)
    return sums, low, high


def added(sums, blinds, modulus):
    """Sums plus blinds, reduced, without the package's arithmetic."""
    total = sums + blinds
    over = (total < sums) | (total > np.uint64(modulus - 1))
    return np.where(over, total - np.uint64(modulus % 2**64), total)


def one_batch(rng, modulus, number, count):
    """Microseconds a comparison of each party, how many verdicts are right, and how many hold."""
    batch = Comparisons(SESSION, number, 3, (COORDINATOR, 1), modulus, count)
    sums, low, high = drawn(rng, modulus, count)
    _, blinding, blinds = timed(draw_blinds, batch)
    _, dealing, keys = timed(deal, batch, blinds)
    blinded = added(sums, blinds, modulus)
    shares, evaluating = [], []
    for holder, secret in enumerate(keys.secrets):
        _, cpu, share = timed(
            lambda holder=holder, secret=secret: ComparisonKeys(
                secret, keys.common, batch, holder
            ).contains(blinded, low, high)
        )
        shares.append(pack(share))
        evaluating.append(cpu)
    found = opened(*shares, count)
    right = int((found == ((low <= sums) & (sums <= high))).sum())
    figures = {
        "deal": 1e6 * (blinding + dealing) / count,
        "evaluate": 1e6 * statistics.mean(evaluating) / count,
    }
    return figures, right, int(found.sum())


def report(count, size, seed):
    rng = np.random.default_rng(seed)
    batches = -(-count // (len(MODULI) * size))
    results = []
    for name, modulus in MODULI.items():
        runs, right, inside = [], 0, 0
        for number in range(batches):
            figures, good, held = one_batch(rng, modulus, number, size)
            runs.append(figures)
            right, inside = right + good, inside + held
        batch = Comparisons(SESSION, 0, 3, (COORDINATOR, 1), modulus, size)
        results.append({
            "modulus": name,
            "comparisons": batches * size,
            "right": right,
            "inside": inside,
            "deal_us": round(statistics.median(run["deal"] for run in runs), 2),
            "evaluate_us": round(statistics.median(run["evaluate"] for run in runs), 2),
            "key_bytes": common_bytes(batch) // size,
        })  # fmt: skip
        print(results[-1])
    total = sum(own["comparisons"] for own in results)
    wrong = total - sum(own["right"] for own in results)
    print(f"{total} comparisons, {wrong} wrong")
    assert wrong == 0, "a comparison is wrong"
    return {"comparisons": total, "wrong": wrong, "batch": size, "seed": seed, "results": results}


def main():
    options = parser(__doc__, seed=0)
    options.add_argument("--count", type=int, default=1_000_000)
    options.add_argument("--batch", type=int, default=5_000)
    arguments = options.parse_args()
    found = report(arguments.count, arguments.batch, arguments.seed)
    write_report(arguments.out, "dcf", found)


if __name__ == "__main__":
    main()
