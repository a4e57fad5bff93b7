"""Hostile bytes for every decoder: valid samples, mutated, and pure noise."""

import random
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pandas as pd
from adversary import Ward, silence, verdicts, votes
from cohort import masking_sites, opened_sum
from driving import drive

from cipherdag import Describe, Effect, FedBOSS, FedCMFS, Federation, FedPC, RFcd, Scoring, Survival
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.errors import CipherdagError
from cipherdag.graphs.networks import asia
from cipherdag.privacy import bfvcontext, wire
from cipherdag.privacy.aggregation import Declaration, Segment
from cipherdag.privacy.bfvcontext import BfvContext
from cipherdag.privacy.fixedpoint import plane_lengths
from cipherdag.privacy.homomorphic_mac import MacKey
from cipherdag.privacy.keys.pairkeys import PairKey, seal, unseal
from cipherdag.privacy.protection_kind import BFV, MASKING, UNPROTECTED
from cipherdag.privacy.wire import decode, encode
from cipherdag.protocol import messages
from cipherdag.protocol import plan as plans
from cipherdag.protocol import set_up_messages as set_up
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.local_beliefs import LocalBeliefs
from cipherdag.questions.question import Bundle
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.questions.threshold import ContributorCounts
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.record.ledger import verify_ledger
from cipherdag.sites.table.schema import Schema

NUMBERS = (0, 1, 0x7F, 0x80, 0xC1, 0xCA, 0xDC, 0xDD, 0xDE, 0xDF, 0xFF)


@dataclass(frozen=True)
class Target:
    """A decoder and samples that it accepts."""

    name: str
    feed: object = field(repr=False)
    samples: tuple[bytes, ...] = field(repr=False)


def targets():
    """Every door that outside bytes come in by."""
    ward = Ward.opened("bfv", n_sites=3)
    question = EdgeVotes(
        skeleton=Skeleton.from_matrix(~np.eye(5, dtype=bool)), layer=0, test=CITestSpec(alpha=0.01)
    )
    ward.session.ask(question)
    sent = [(operation, message) for operation, _, message in ward.engine.sent]
    received = [reply for _, _, reply in ward.engine.received]
    found = [Target("envelope", messages.read_envelope, tuple(received[:6]))]
    for kind in bodies():
        samples = tuple(
            messages.read_envelope(raw).body for raw in (*received, *(m for _, m in sent))
        )[:12]
        found.append(Target(kind.__name__, lambda b, k=kind: decode(b, k), samples))
    runtime = ward.runtimes["hospital-0"]
    for operation in sorted(messages.OPERATIONS):
        own = tuple(m for o, m in sent if o == operation)[:2] or (sent[0][1],)
        found.append(
            Target(
                f"site {operation}",
                lambda b, r=runtime, o=operation: messages.read_envelope(r.handle(o, b)),
                own,
            )
        )
    return [*found, *signed_targets(), *sum_targets(), *protection_targets(), *text_targets(ward)]


def bodies():
    """All message bodies."""
    return [
        kind
        for kind in (vars(messages) | vars(set_up)).values()
        if isinstance(kind, type) and issubclass(kind, messages.Body) and kind is not messages.Body
    ]


def signed_targets():
    """The same doors for a coordinator that signs whatever it sends, each where it is expected."""
    found = []
    for operation in sorted(messages.OPERATIONS):
        ward, site, sample = stopped_at(operation)
        door = signing(ward, ward.runtimes[site], operation)
        found.append(Target(f"site signed {operation}", door, (sample,)))
    return found


def stopped_at(operation):
    """A ward as far as a site expects this message, and the message; in round 2 a site leaves."""
    stopped = []

    def tamper(own, site, message):
        if own == operation and (own != "ask" or ward.session._step == 2):
            stopped.extend((site, messages.read_envelope(message).body))
            raise StoppedError
        return message

    sparse = 2 if operation in ("commitments", "chances", "linked") else plans.COMPLETE_UP_TO
    with suppress(StoppedError), patch.object(plans, "COMPLETE_UP_TO", sparse):
        ward = Ward("bfv" if operation == "open" else "masking", n_sites=8 if sparse == 2 else 4)
        ward.engine.tamper = tamper
        ward.session.open()
        ward.session.ask(votes())
        if operation == "secure":
            ward.session.ask(verdicts())
        silence(ward, "hospital-2", "unmask")
        ward.session.ask(votes(0.2))
        ward.session.finish()
    return ward, *stopped


class StoppedError(Exception):
    """The coordinator has come as far as it should."""


def signing(ward, runtime, operation):
    """A site's door for bodies that the coordinator signs, wherever it stands now."""
    held = runtime._current

    def session_of(body):
        try:
            return decode(body, messages.Plan).session
        except CipherdagError:
            return ward.session._plan.session

    def feed(body):
        session = session_of(body)
        parts = messages._signed_parts(session, "coordinator", operation, body)
        signature = ward.coordinator.sign(*parts)
        envelope = messages.Envelope(
            messages.WIRE_VERSION, session, "coordinator", operation, body, signature
        )
        reply = runtime.handle(operation, encode(envelope))
        runtime._current = held  # a session that ended, or began
        return messages.read_envelope(reply)

    return feed


def sum_targets():
    """What a site is told was opened, for questions of every kind that a run asks."""
    found = []
    for name, question in sorted(asked_questions().items()):
        ask = messages.Ask(number=1, participants=(0, 1), step=1, content=bytes(32))
        plan = SimpleNamespace(cohort=range(2), colluders=1, key_bounds=None)
        declared = messages.declaration(question, ask.participants, b"d" * 32, plan)
        sites = [UNPROTECTED.site(0, {}, MacKey(b"k" * 32), b"") for _ in range(2)]
        shares = {
            k: site.share(np.zeros(declared.length), declared) for k, site in enumerate(sites)
        }
        coordinator = UNPROTECTED.coordinator()
        opened = coordinator.open(
            coordinator.combine(shares, declared), dict.fromkeys(shares, b""), declared
        )

        def read(packed, site=sites[0], declared=declared):
            length = site.sum_bytes(declared)
            return site.accept(wire.unpack(packed, length), declared)

        def read_words(content, site=sites[0], declared=declared):
            return site.accept(content, declared)

        found.append(Target(f"packed sum {name}", read, (wire.pack(opened.content),)))
        found.append(Target(f"sum {name}", read_words, (opened.content,)))
    return found


def asked_questions():
    """One question of every kind, as real runs ask them."""
    rng = np.random.default_rng(0)
    rows = asia().sample(600, rng)
    discrete = Federation.split(rows, 3, seed=0, labels=tuple(rows.columns[:2]))
    numbers = pd.DataFrame(rng.normal(size=(90, 3)), columns=list("abc"))
    continuous = Federation.split(numbers, 3, seed=0)
    grade = pd.Categorical.from_codes(rng.permutation(np.arange(90) % 3), list("xyz"), ordered=True)
    ordered = Federation.split(numbers.assign(grade=grade), 3, seed=0)
    nominal = Federation.split(numbers.assign(kind=grade.astype(str)), 3, seed=0)
    exact = Federation.split(numbers, 3, seed=0)
    lost = rng.choice(["lost", "seen"], 90)
    times = pd.DataFrame({"t": rng.exponential(3.0, 90), "u": lost, "v": rng.normal(size=90)})
    followed = Federation.split(times, 3, seed=0)
    runs = [
        *((FedPC(evidence=kind), discrete) for kind in ("vote", "stratified", "fisher", "pooled")),
        *(
            (FedPC(evidence=kind, reveal="bits"), discrete)
            for kind in ("vote", "stratified", "fisher")
        ),
        *((FedPC(reveal=kind), ordered) for kind in ("sums", "bits")),
        (FedPC(evidence="glm"), ordered),
        (FedPC(alpha=0.3), nominal),
        (FedPC(evidence="vote", voting=Voting(sepset="mean"), alpha=0.5), discrete),
        (FedPC(evidence="vote", bootstrap=1, max_cond_size=0), discrete),
        (FedPC(evidence="pooled"), continuous),
        (FedPC(reveal="sums", alpha=0.9), continuous),
        (FedBOSS(reveal="sums", scoring=Scoring(restarts=0)), discrete),
        (FedBOSS(reveal="bits"), discrete),
        *((Describe(), each) for each in (ordered, exact)),
        *(
            (Survival(time="t", event="u", adjust=("v",), site_effect=own), followed)
            for own in (False, True)
        ),
        (Effect(treatment="grade", outcome="a", adjust="b"), ordered),
        *((FedCMFS(reveal=kind), discrete) for kind in ("sums", "bits")),
        *(
            (RFcd(objective=kind, searching=Searching(beam=1)), discrete)
            for kind in ("graph", "nodewise", "sum")
        ),
    ]
    found = {"LocalBeliefs": LocalBeliefs(n_variables=4, round=1, seed=0, aggregation="naive")}
    for algorithm, federation in runs:
        one_hazard = isinstance(algorithm, Survival) and not algorithm.site_effect
        summed = isinstance(algorithm, FedBOSS) and algorithm.reveal == "sums"
        least = 0 if one_hazard or summed or federation is exact else 5  # these need all counts
        sites = [
            SiteView.of_table(s.table, min_cell_size=least, device="cpu") for s in federation.sites
        ]
        names = federation.sites[0].table.names
        questions = []
        for min_contributors in (1, 2):
            facts = Facts(
                len(names), 3, names=names, labels=(0, 1), min_contributors=min_contributors
            )
            questions += drive(algorithm.ask(facts), sites)[1]
        for question in questions:
            for part in question.parts if isinstance(question, Bundle) else (question,):
                found.setdefault(type(part).__name__, part)
                if isinstance(part, ContributorCounts):  # of cells nothing is asked but so
                    found.setdefault(type(part.question).__name__, part.question)
    return found


def protection_targets():
    """Shares, contexts and sealed boxes."""
    context = BfvContext.generate()
    declared = Declaration(b"d" * 32, 3, (Segment(20, 1.0), Segment(5, 1.0, comparison=True)))
    bfv, lengths = BFV.coordinator(), plane_lengths(declared, context.moduli)
    encrypted = context.write(np.zeros(sum(lengths), dtype=np.uint64), lengths)
    masking = MASKING.coordinator()
    sites = masking_sites(3)
    opened = opened_sum(sites, masking, [np.ones(25)] * 3, declared).content
    key = PairKey(b"k" * 32)
    boxed = seal(key, b"fuzz", b"plain", b"with")
    return [
        Target("masked share", lambda b: masking.check(b, declared), (bytes(8 * 27),)),
        Target("encrypted share", lambda b: bfv.check(b, declared), (encrypted,)),
        Target("encrypted sum", lambda b: context.read(b, lengths), (encrypted,)),
        Target("opened sum", lambda b: sites[0].accept(b, declared), (opened,)),
        Target("BFV keys", bfv_keys, (context.secret_bytes(),)),
        Target("sealed box", lambda b: unseal(key, b"fuzz", b, b"with"), (boxed,)),
    ]


def bfv_keys(content):
    """What a site reads before TenSEAL is given reduced coefficients, which takes long."""
    return bfvcontext._coefficients(content, bfvcontext._KEY, len(bfvcontext.PLAINTEXT_MODULI))


def text_targets(ward):
    """Files that a person or another program may have written."""
    schema = ward.tables["hospital-0"].schema
    lines = "\n".join(ward.ledgers["hospital-0"].lines).encode()

    def ledger(content):
        verify_ledger(content.decode("utf-8", "replace").split("\n"))

    return [
        Target(
            "schema",
            lambda b: Schema.loads(b.decode("utf-8", "replace")),
            (schema.dumps().encode(),),
        ),
        Target("ledger", ledger, (lines,)),
    ]


def mutate(sample, source: random.Random):
    """A hostile variant of a sample: noise, cuts, flips, splices, repeats and wild numbers."""
    choice = source.randrange(7)
    if choice == 0 or not sample:
        return source.randbytes(source.randrange(300))
    data = bytearray(sample)
    position = source.randrange(len(data))
    if choice == 1:
        return bytes(data[:position])
    if choice == 2:
        for _ in range(source.randrange(1, 8)):
            data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    elif choice == 3:
        data[position] = source.choice(NUMBERS)
    elif choice == 4:
        data[position:position] = source.randbytes(source.randrange(1, 40))
    elif choice == 5:
        stop = min(len(data), position + source.randrange(1, 64))
        data[position:position] = data[position:stop]
    else:
        data[position : position + 5] = b"\xdd\xff\xff\xff\xff"
    return bytes(data)


def attack(inputs, seed, found=None):
    """Feed ``inputs`` hostile byte strings over all decoders; anything but named errors escapes.

    Returns how many were refused by each decoder.
    """
    source = random.Random(seed)
    found = found or targets()
    refused = dict.fromkeys((target.name for target in found), 0)
    for number in range(inputs):
        target = found[number % len(found)]
        hostile = mutate(source.choice(target.samples), source)
        try:
            target.feed(hostile)
        except CipherdagError:
            refused[target.name] += 1
    return refused
