"""Cost of each protection: processor time and bytes of one site, and the coordinator's part.

Run ``python benchmarks/protections.py --out protections.json``. Times are medians of processor
time over the repetitions, in milliseconds, with one thread.
"""

from __future__ import annotations

import hashlib
import statistics

import numpy as np
from measuring import parser, timed, write_report

from cipherdag.privacy.aggregation import Declaration, Segment
from cipherdag.privacy.bfvcontext import BfvContext
from cipherdag.privacy.homomorphic_mac import MacKey
from cipherdag.privacy.keys.pairkeys import EphemeralKeys, agree_as_initiator, agree_as_responder
from cipherdag.privacy.protection_kind import BFV, MASKING, UNPROTECTED
from cipherdag.privacy.roundmasks import RoundMasks
from cipherdag.privacy.sums import SiteAggregation

SUM_KEY = MacKey(hashlib.sha256(b"benchmark").digest())

# milliseconds of a site, bytes a value; only for values that need one residue
TARGETS = {"masking": (5.0, 8.01), "bfv": (100.0, 16.0)}


def milliseconds(action):
    _, cpu, result = timed(action)
    return result, 1e3 * cpu


def agreed_keys(n_sites):
    """Pair keys of every site, and the median time of one agreement at both its sites."""
    keys = [EphemeralKeys.generate() for _ in range(n_sites)]
    pairs = [{} for _ in range(n_sites)]
    times = []
    transcript = hashlib.sha256(b"benchmark").digest()
    for i in range(n_sites):
        for j in range(i + 1, n_sites):
            offer = keys[j].x25519_public, keys[j].mlkem_public
            (ciphertext, pairs[i][j]), initiator = milliseconds(
                lambda i=i, j=j, offer=offer: agree_as_initiator(keys[i], *offer, transcript, i, j)
            )
            pairs[j][i], responder = milliseconds(
                lambda i=i, j=j, ciphertext=ciphertext: agree_as_responder(
                    keys[j], keys[i].x25519_public, ciphertext, transcript, i, j
                )
            )
            times.append((initiator + responder) / 2)
    return pairs, statistics.median(times)


def protections(pairs):
    """Name, a maker of all sites, and the coordinator of every protection."""
    context = BfvContext.generate()
    return [
        *(
            (
                kind.name,
                lambda kind=kind: [kind.site(i, p, SUM_KEY, b"") for i, p in enumerate(pairs)],
                kind.coordinator(),
            )
            for kind in (UNPROTECTED, MASKING)
        ),
        (
            BFV.name,
            lambda: [
                SiteAggregation(RoundMasks(i, p), SUM_KEY, context) for i, p in enumerate(pairs)
            ],
            BFV.coordinator(),
        ),
    ]


def measure(make_sites, coordinator, segment, answers, repetitions):
    """Medians over the repetitions, each a whole round, and the aggregate."""
    runs = []
    threshold = max(1, len(answers) // 2)
    for repetition in range(repetitions):
        digest = hashlib.sha256(f"{segment} {repetition}".encode()).digest()
        declaration = Declaration(digest, len(answers), (segment,), threshold=threshold)
        run, aggregate = timed_round(make_sites(), coordinator, answers, declaration)
        runs.append(run)
    figures = {
        name: round(statistics.median(run[name] for run in runs), 3)
        for name in runs[0]
        if name != "bytes"
    }
    sent = statistics.median(run["bytes"] for run in runs)
    figures["bytes_per_value"] = round(sent / segment.length, 3)
    return figures, aggregate.values.tobytes()


def timed_round(sites, coordinator, answers, declaration):
    """Times of site 0 and of the coordinator, the bytes of a share, and the aggregate."""
    run = {}

    def step(name, action):
        result, run[name] = milliseconds(action)
        return result

    shares = {0: step("site_ms", lambda: sites[0].share(answers[0], declaration))}
    others = declaration.sites[1:]
    shares |= {k: sites[k].share(answers[k], declaration) for k in others}
    run["bytes"] = len(shares[0])
    step("site_escrow_ms", lambda: sites[0].escrow(declaration))
    seeds = {0: step("site_unmask_ms", lambda: sites[0].unmask(declaration))}
    seeds |= {k: sites[k].unmask(declaration) for k in others}
    combined = step("combine_ms", lambda: coordinator.combine(shares, declaration))
    run["site_opening_ms"] = 0.0
    if coordinator.opened_by_site:
        combined = step("site_opening_ms", lambda: sites[0].open(combined, seeds, declaration))
    aggregate = step("decode_ms", lambda: coordinator.open(combined, seeds, declaration))
    step("site_accept_ms", lambda: sites[0].accept(aggregate.content, declaration))
    return run, aggregate


def report(values, n_sites, repetitions, seed):
    rng = np.random.default_rng(seed)
    pairs, agreement_ms = agreed_keys(n_sites)
    segments = {
        "votes": Segment(values, 1.0),
        "p-values": Segment(values, 1.0, 24),
        "weighted p-values": Segment(values, 2.0**20, 20),
        "comparisons": Segment(values, 1.0, comparison=True),
    }
    results = []
    for kind, segment in segments.items():
        answers = [rng.uniform(0.0, segment.bound, values) for _ in range(n_sites)]
        if kind in ("votes", "comparisons"):
            answers = [np.rint(answer) for answer in answers]
        seen = set()
        for name, make_sites, coordinator in protections(pairs):
            figures, aggregate = measure(make_sites, coordinator, segment, answers, repetitions)
            seen.add(aggregate)
            entry = {"protection": name, "answers": kind, **figures}
            if name in TARGETS and kind != "weighted p-values":
                most_ms, most_bytes = TARGETS[name]
                entry["within_target"] = (
                    figures["site_ms"] <= most_ms and figures["bytes_per_value"] <= most_bytes
                )
            results.append(entry)
            print(entry)
        assert len(seen) == 1, "the protections disagree"
    return {
        "values": values,
        "sites": n_sites,
        "repetitions": repetitions,
        "seed": seed,
        "key_agreement_ms_per_peer": round(agreement_ms, 3),
        "targets": {name: {"site_ms": t, "bytes_per_value": b} for name, (t, b) in TARGETS.items()},
        "results": results,
    }


def main():
    options = parser(__doc__, seed=0)
    options.add_argument("--values", type=int, default=100_000)
    options.add_argument("--sites", type=int, default=10)
    options.add_argument("--repetitions", type=int, default=7)
    arguments = options.parse_args()
    found = report(arguments.values, arguments.sites, arguments.repetitions, arguments.seed)
    write_report(arguments.out, "protections", found)


if __name__ == "__main__":
    main()
