"""Hostile bytes for every decoder: valid samples, mutated, and pure noise."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from adversary import Ward
from driving import drive
from msgspec.structs import replace

from cipherdag import FedCMFS, Federation, FedPC, RFcd
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import CipherdagError
from cipherdag.graphs.networks import asia
from cipherdag.privacy.aggregation import Declaration, Segment
from cipherdag.privacy.bfv import BFV
from cipherdag.privacy.bfvcontext import BfvContext
from cipherdag.privacy.masking import MASKING
from cipherdag.privacy.pairkeys import PairKey
from cipherdag.privacy.sealing import seal, unseal
from cipherdag.protocol import messages
from cipherdag.questions.question import Bundle, CITestSpec, LocalBeliefs, Skeleton
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.sites.answers.table_respondent import table_respondent
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
    ward = Ward("bfv", n_sites=3)
    ward.session.open()
    question = EdgeVotes(
        skeleton=Skeleton.from_matrix(~np.eye(5, dtype=bool)),
        layer=0,
        test=CITestSpec(alpha=0.01),
    )
    ward.session.ask(question)
    sent = [(operation, message) for operation, _, message in ward.engine.sent]
    received = [reply for _, _, reply in ward.engine.received]
    found = [Target("envelope", messages.read_envelope, tuple(received[:6]))]
    for kind in bodies():
        samples = tuple(
            messages.read_envelope(raw).body for raw in (*received, *(m for _, m in sent))
        )[:12]
        found.append(Target(kind.__name__, lambda b, k=kind: messages.decode(b, k), samples))
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
    asked = next(message for operation, message in sent if operation == "ask")
    ask = messages.decode(messages.read_envelope(asked).body, messages.Ask)
    return [*found, *question_targets(ask), *protection_targets(), *text_targets(ward)]


def bodies():
    """All message bodies."""
    return [
        kind
        for kind in vars(messages).values()
        if isinstance(kind, type) and issubclass(kind, messages.Body) and kind is not messages.Body
    ]


def question_targets(ask):
    """Questions of every kind that a run asks, within the message that carries them."""

    def read(content):
        question = messages.decode(content, messages.Ask).question
        return sum(encoding.length for encoding in question.encodings)

    return [
        Target(f"question {name}", read, (messages.encode(replace(ask, question=question)),))
        for name, question in sorted(asked_questions().items())
    ]


def asked_questions():
    """One question of every kind, as real runs ask them."""
    rng = np.random.default_rng(0)
    rows = asia().sample(600, rng)
    discrete = Federation.split(rows, 3, seed=0, labels=tuple(rows.columns[:2]))
    numbers = pd.DataFrame(rng.normal(size=(90, 3)), columns=list("abc"))
    continuous = Federation.split(numbers, 3, seed=0)
    grade = pd.Categorical.from_codes(rng.permutation(np.arange(90) % 3), list("xyz"), ordered=True)
    ordered = Federation.split(numbers.assign(grade=grade), 3, seed=0)
    runs = [
        *((FedPC(evidence=kind), discrete) for kind in ("vote", "statistic", "pooled")),
        (FedPC(evidence="glm"), ordered),
        (FedPC(sepset="mean", alpha=0.5), discrete),
        (FedPC(bootstrap=1, max_cond_size=0), discrete),
        (FedPC(evidence="pooled"), continuous),
        (FedCMFS(), discrete),
        *((RFcd(objective=kind, beam=1), discrete) for kind in ("graph", "nodewise", "sum")),
    ]
    found = {"LocalBeliefs": LocalBeliefs(n_variables=4, round=1, seed=0, aggregation="naive")}
    for algorithm, federation in runs:
        sites = [table_respondent(s.table, min_cell_size=5, device="cpu") for s in federation.sites]
        names = federation.sites[0].table.names
        facts = Facts(len(names), 3, names=names, labels=(0, 1))
        _, questions = drive(algorithm.ask(facts), sites)
        for question in questions:
            for part in question.parts if isinstance(question, Bundle) else (question,):
                found.setdefault(type(part).__name__, part)
    return found


def protection_targets():
    """Shares, contexts and sealed boxes."""
    context = BfvContext.generate()
    declared = Declaration(b"d" * 32, 3, (Segment(20, 1.0), Segment(5, 1.0, comparison=True)))
    bfv = BFV.coordinator(context.public_bytes())
    masking = MASKING.coordinator(b"")
    key = PairKey(b"k" * 32)
    boxed = seal(key, b"fuzz", b"plain", b"with")
    return [
        Target("masked share", lambda b: masking.check(b, declared), (bytes(8 * 26),)),
        Target("encrypted share", lambda b: bfv.check(b, declared), (context.public_bytes(),)),
        Target("public context", BFV.coordinator, (context.public_bytes(),)),
        Target("sealed box", lambda b: unseal(key, b"fuzz", b, b"with"), (boxed,)),
    ]


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
