"""Secure tests: processor seconds and bytes of every role, for many sites, tests and widths.

    python benchmarks/mpc_kernel.py [--repeats 3] [--peers FILE ...] [--out FILE]

Each party derives the batch for itself, as it does in a run. Bits are held against the very sums.
Keys are sent once by the dealer and handed on to both holders, so what the dealer sends is counted
in ``sent`` once and in what the holders receive twice. ``--peers`` takes what `mpc_peers.py` wrote.
``--exact`` compares so many sums more, a test of its own each: at and around their thresholds, far
from them, and at both ends of every domain.
"""

from __future__ import annotations

import gc
import hashlib
import json
import math
import os
import statistics
from collections import Counter
from pathlib import Path

import numpy as np
from markdown_table import table
from measuring import parser, timed, write_report

from cipherdag.predicates import Predicates
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.keys.pairkeys import PairKey
from cipherdag.privacy.mpc.batch import Batch, Roles
from cipherdag.privacy.mpc.messages import Relay
from cipherdag.privacy.mpc.party import Party

SESSION, QUESTION = (hashlib.sha256(name).digest() for name in (b"session", b"question"))
GRID, LARGEST_Z2 = 16, 40
EXACT_TESTS, EXACT_ROWS = 10_000, (40, 5_000, 50_000, 2**20, 2**24)
CASES = (
    # sites, rows, tests, components
    (3, 5_000, 4_400, 11_000),
    (10, 5_000, 4_400, 11_000),
    (10, 50_000, 4_400, 11_000),
    (10, 2**20, 4_400, 11_000),
    (100, 50_000, 4_400, 11_000),
    (1000, 2**20, 700, 1_750),
    (1000, 50_000, 4_400, 11_000),
)
ROLES = ("site", "dealer", "twin", "holder", "relay")


def score_tests(sizes, *, scores, variances, constant):
    """Tests of "U^2 > V + constant for any component", within these bounds."""
    count = int(sizes.sum())
    each, one, none = np.arange(count), np.ones(count, dtype=np.int64), np.zeros(count, np.int64)
    return Predicates(
        np.concatenate([-scores * one, none]),
        np.concatenate([scores * one, variances * one]),
        sizes,
        np.stack([each, each, each, one], axis=1),
        np.stack([each, count + each, -one], axis=1),
        -constant * one,
    )


def question(rng, rows, tests, components):
    """Predicates of so many components, and sums at and around their thresholds."""
    sizes = np.ones(tests, dtype=np.int64) + rng.multinomial(
        components - tests, np.full(tests, 1 / tests)
    )
    score, variance = rows * GRID // 4, LARGEST_Z2 * rows * GRID**2 // 4
    constant = 6 * GRID**2
    predicates = score_tests(sizes, scores=score, variances=variance, constant=constant)
    scores = rng.integers(-3000, 3001, components)
    off = rng.integers(-3, 4, components)
    sums = np.concatenate([scores, np.clip(scores**2 - constant - off, 0, variance)])
    forms = sums[:components] ** 2 - sums[components:] - constant > 0
    return predicates, sums, np.logical_or.reduceat(forms, predicates.starts)


def vectors_of(rng, sums, n_sites):
    """Vectors that add up to the sums, as far as the bounds of the last one allow."""
    parts = rng.integers(-20, 21, (n_sites, sums.size))
    parts[:, sums.size // 2 :] = np.abs(parts[:, sums.size // 2 :]) // 20
    parts[-1] = 0
    parts[-1] = sums - parts.sum(axis=0)
    short = parts[-1, sums.size // 2 :] < 0
    parts[:, sums.size // 2 :][:, short] = 0
    parts[-1, sums.size // 2 :][short] = sums[sums.size // 2 :][short]
    return parts


class Cohort:
    """Parties with keys of the four that have roles."""

    def __init__(self, n_sites):
        self.roles = Roles.draw(hashlib.sha256(b"beacon").digest(), range(n_sites))
        hubs = set(self.roles.sites)
        self.names = [f"site-{k}" for k in range(n_sites)]
        self.identities = {item: SigningIdentity.generate() for item in self.roles.holders}
        keys = {item: {} for item in range(n_sites)}
        for hub in hubs:
            for item in set(range(n_sites)) - {hub}:
                keys[hub][item] = keys[item][hub] = keys[item].get(hub) or PairKey(os.urandom(32))
        self.parties = [
            Party(SESSION, item, keys[item], self.roles, self.names, self.identities.get(item))
            for item in range(n_sites)
        ]

    def role(self, item):
        """The name that its figures stand under."""
        roles = self.roles
        named = {roles.dealer: "dealer", roles.twin: "twin"}
        return named.get(item, "holder" if item in roles.holders else "site")

    def run(self, predicates, vectors, number):
        """The bits, and seconds and bytes of every party."""
        self.seconds, self.sent, self.received = Counter(), Counter(), Counter()
        n_sites = len(self.parties)
        self.number = number, tuple(range(n_sites))
        batches = {item: self._spent(item, self._batch, predicates) for item in range(n_sites)}
        seats = {
            item: self._spent(item, self.parties[item].begin, batches[item]) for item in batches
        }
        batch = self._spent("relay", self._batch, predicates)
        relay = Relay(batch, self.names)
        replies = {item: self._spent(item, seats[item].share, vectors[item]) for item in seats}
        for step in ("prepare", "square", "compare", "open"):
            for item, reply in replies.items():
                self.sent[item] += len(reply)
            requests = self._spent("relay", getattr(relay, step), replies)
            replies = {}
            for item, request in requests.items():
                self.received[item] += len(request)
                replies[item] = self._spent(item, getattr(seats[item], step), request)
            del requests
        for item, reply in replies.items():
            self.sent[item] += len(reply)
        content = self._spent("relay", relay.combine, replies)
        public = [
            self.identities[item].public if item in self.identities else b"" for item in seats
        ]
        for item in seats:
            self.received[item] += len(content)
            bits = self._spent(item, self.parties[item].accept, content, batches[item], public)
        return bits, batch

    def _batch(self, predicates):
        """A batch, with all that is derived from it."""
        number, sites = self.number
        copied = Predicates(*(getattr(predicates, name) for name in Predicates.__slots__))
        batch = Batch(SESSION, QUESTION, number, 0, sites, self.roles, copied)
        _ = batch.digest, batch.vector, batch.factors, batch.forms
        return batch

    def _spent(self, item, verb, *arguments):
        _, cpu, found = timed(verb, *arguments)
        self.seconds[item] += cpu
        return found

    def per_role(self, counts):
        """Of the costliest party of every role."""
        found = dict.fromkeys(ROLES, 0)
        for item, figure in counts.items():
            role = item if item == "relay" else self.role(item)
            found[role] = max(found[role], figure)
        return found


def one_case(n_sites, rows, tests, components, repeats, seed):
    """Medians over repeats."""
    rng = np.random.default_rng(seed)
    cohort, runs = Cohort(n_sites), []
    for number in range(repeats):
        predicates, sums, wanted = question(rng, rows, tests, components)
        vectors = vectors_of(rng, sums, n_sites)
        gc.collect()
        bits, batch = cohort.run(predicates, vectors, number)
        runs.append({
            "wrong": int((bits != wanted).sum()),
            "seconds": cohort.per_role(cohort.seconds),
            "all_seconds": sum(cohort.seconds.values()),
            "sent": cohort.per_role(cohort.sent),
            "received": cohort.per_role(cohort.received),
            "all_sent": sum(cohort.sent.values()),
        })  # fmt: skip
        del vectors

    def median(name):
        return {role: round(statistics.median(r[name][role] for r in runs), 4) for role in ROLES}

    return {
        "sites": n_sites, "rows": rows, "tests": tests, "components": components,
        "width": int(batch.widths.max()), "repeats": repeats, "dealt_bytes": batch.dealt_bytes,
        "wrong": sum(run["wrong"] for run in runs),
        "seconds": median("seconds"),
        "all_seconds": round(statistics.median(run["all_seconds"] for run in runs), 3),
        "sent": median("sent"), "received": median("received"),
        "all_sent": runs[0]["all_sent"],
    }  # fmt: skip


def exact(comparisons, seed):
    """How many of so many comparisons are wrong, by the number of rows and by where sums lie."""
    rng, counts = np.random.default_rng(seed), Counter()
    cohorts = [Cohort(n_sites) for n_sites in (3, 4, 10)]
    done, number = 0, 0
    while done < comparisons:
        rows = EXACT_ROWS[number % len(EXACT_ROWS)]
        each = np.ones(EXACT_TESTS, dtype=np.int64)
        score, variance = rows * GRID // 4, LARGEST_Z2 * rows * GRID**2 // 4
        constant = 6 * GRID**2
        predicates = score_tests(each, scores=score, variances=variance, constant=constant)
        root = min(math.isqrt(variance + constant), score)
        near = rng.integers(-root, root + 1, EXACT_TESTS)
        scores = [
            near,
            rng.integers(-score, score + 1, EXACT_TESTS),
            rng.choice([-score, score], EXACT_TESTS),
        ]
        around = np.clip(near**2 - constant - rng.integers(-3, 4, EXACT_TESTS), 0, variance)
        variances = [
            around,
            rng.integers(0, variance + 1, EXACT_TESTS),
            rng.choice([0, variance], EXACT_TESTS),
        ]
        place = rng.integers(0, len(scores), EXACT_TESTS)
        sums = np.concatenate([np.choose(place, scores), np.choose(place, variances)])
        cohort = cohorts[number % len(cohorts)]
        vectors = np.zeros((len(cohort.parties), sums.size), dtype=np.int64)
        vectors[rng.integers(len(vectors), size=sums.size), np.arange(sums.size)] = sums
        bits, _ = cohort.run(predicates, vectors, number)
        wanted = sums[:EXACT_TESTS] ** 2 - sums[EXACT_TESTS:] - constant > 0
        for item, name in enumerate(("around the threshold", "anywhere", "at an end")):
            counts[name] += int((place == item).sum())
            counts[f"wrong {name}"] += int((bits != wanted)[place == item].sum())
        done, number = done + EXACT_TESTS, number + 1
    return dict(counts)


def markdown(figures):
    """Tables of seconds and of bytes."""
    head = ["sites", "rows", "bits", "tests", "components"]
    senders = ROLES[:-1]
    seconds, sent = [], []
    for item in figures["cases"]:
        first = [f"{item[name]:,}" for name in ("sites", "rows", "width", "tests", "components")]
        spent = [_figure(item["seconds"][role]) for role in ROLES]
        seconds.append([*first, *spent, f"{item['all_seconds']:.2f}"])
        said = [_figure(item["sent"][role] / 1e6) for role in senders]
        heard = f"{item['received']['holder'] / 1e6:.2f}"
        sent.append([*first, *said, f"{item['all_sent'] / 1e6:.2f}", heard])
    lines = ["Processor seconds of the costliest party of a role, and of all parties together:", ""]
    lines += [*table([*head, *ROLES, "all"], seconds), ""]
    lines += ["Megabytes that it sends, that all sites send, and that a holder receives:", ""]
    lines += table([*head, *senders, "all", "holder receives"], sent)
    columns = ["engine", "parties", "comparisons", "wrong", "processor us", "bytes", "sends"]
    rows = [[str(cell) for cell in row] for row in _engines(figures)]
    lines += ["", "One comparison, all parties together, next to other engines:", ""]
    lines += table(columns, rows)
    return "\n".join(lines) + "\n"


def _engines(figures):
    """Rows of the first two cases, and of the peers."""
    for item in figures["cases"][:2]:
        count = item["components"]
        cpu, sent = 1e6 * item["all_seconds"] / count, item["all_sent"] / count
        name = f"this kernel, {item['sites']} sites"
        yield (
            name,
            item["sites"],
            f"{count:,}",
            item["wrong"],
            f"{cpu:.1f}",
            f"{sent:.0f}",
            ("4 a holder"),
        )
    for item in figures["peers"]:
        cpu, sent = f"{item['cpu_us']:.1f}", f"{item['bytes']:.0f}"
        count = f"{item['comparisons']:,}"
        yield item["engine"], item["parties"], count, item["wrong"], cpu, sent, item["sends"]


def _figure(value):
    """Three digits, and nothing for a role that is not there."""
    return f"{value:.3f}" if value else ""


def main():
    options = parser(__doc__, seed=0)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--exact", type=int, default=0)
    options.add_argument("--peers", type=Path, nargs="*", default=[])
    arguments = options.parse_args()
    found = exact(arguments.exact, arguments.seed) if arguments.exact else {}
    print(found, flush=True)
    cases = []
    for case in CASES:
        repeats = arguments.repeats if case[0] * case[3] < 2_000_000 else 1
        cases.append(one_case(*case, repeats, arguments.seed))
        print(cases[-1], flush=True)
    wrong = sum(item["wrong"] for item in cases)
    assert wrong == 0, "a bit is wrong"
    peers = [item for file in arguments.peers for item in json.loads(file.read_text("utf-8"))]
    figures = {"seed": arguments.seed, "exact": found, "cases": cases, "peers": peers}
    write_report(arguments.out, "mpc_kernel", figures, markdown)


if __name__ == "__main__":
    main()
