"""Cases of secure tests that the golden file holds, with what the plain reference says of them.

python tests/support/secure_test_cases.py    writes it anew
"""

import hashlib
import json
from pathlib import Path

from plain_secure_tests import NOBODY, Batch

GOLDEN = Path(__file__).parent / "golden" / "secure_tests.json"


def number(bound, *parts):
    """A number below a bound that looks random."""
    digest = hashlib.shake_256("|".join(map(str, parts)).encode()).digest(16)
    return int.from_bytes(digest, "big") % bound


def one_case(name, n_sites, tests, bounds, largest):
    """A case over words with these bounds, and vectors of which none is larger."""
    case = {
        "session": hashlib.sha256(b"session").hexdigest(),
        "question": hashlib.sha256(name.encode()).hexdigest(),
        "number": 7,
        "attempt": number(3, name, "attempt"),
        "sites": list(range(n_sites)),
        "dealer": NOBODY if n_sites == 2 else 0,
        "twin": 1 if n_sites > 3 else None,
        "holders": {2: [0, 1], 3: [1, 2]}.get(n_sites, [2, 3]),
        "lowest": [low for low, _ in bounds],
        "highest": [high for _, high in bounds],
        "tests": tests,
    }
    seeds = [
        [hashlib.sha256(f"{name} {site} {which}".encode()).hexdigest() for which in (0, 1)]
        for site in range(n_sites)
    ]
    vectors = [
        [
            number(min(high, largest) - max(low, -largest) + 1, name, site, w) + max(low, -largest)
            for w, (low, high) in enumerate(bounds)
        ]
        for site in range(n_sites)
    ]
    return case | {
        "seeds": seeds,
        "dealer_seed": hashlib.sha256(f"{name} dealer".encode()).hexdigest(),
        "vectors": vectors,
    }


def form(quadratic=(), linear=(), constant=0):
    return {
        "quadratic": [list(term) for term in quadratic],
        "linear": [list(term) for term in linear],
        "constant": constant,
    }


def cases():
    score = [form([(j, j, 1)], [(3 + j, -1)], -96) for j in range(3)]
    yield one_case("scores", 4, [score[:1], score[1:]], [(-300, 300)] * 3 + [(0, 90_000)] * 3, 40)
    levels = [[form([(0, 0, 16)], [(1, -item)], -40)] for item in (43, 106, 173)]
    yield one_case("levels of one sum", 3, levels, [(-50, 50), (0, 900)], 15)
    mixed = [
        [form([(0, 0, 3), (0, 1, -2), (1, 1, 5)], [(2, -1)], -4), form((), [(2, 7), (3, -3)], 1)],
        [form((), [(3, 1)], 0)],
    ]
    yield one_case("widths that differ", 5, mixed, [(-9, 9), (-7, 8), (0, 60), (-2, 3)], 3)
    yield one_case("two sites", 2, [[form([(0, 0, 1)], (), -25)]], [(-12, 12)], 6)
    wide = [[form([(0, 0, 3)], [(1, -(2**20))], -(2**58))]]
    yield one_case("the widest ring", 4, wide, [(-(2**30), 2**30), (0, 2**39)], 2**28)


def ran(case):
    seeds = [[bytes.fromhex(item) for item in pair] for pair in case["seeds"]]
    batch = Batch(case)
    found = batch.run(case["vectors"], seeds, bytes.fromhex(case["dealer_seed"]))
    return {"digest": batch.digest.hex(), "widths": batch.widths} | found


if __name__ == "__main__":
    golden = [{"case": case, "said": ran(case)} for case in cases()]
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n", "utf-8")
