"""One field of one message altered by the coordinator, and signed: named, or without effect."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from random import Random

import msgspec
import pytest
from adversary import Ward, silence
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from cipherdag import FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import CipherdagError, SiteComputationError, SiteUnreachableError
from cipherdag.privacy.wire import decode
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.protocol.messages import REQUESTS, content_digest, read_envelope
from cipherdag.sites.session.rounds import Rounds

N_SITES = 4
LEAVES = "hospital-3"
PLANNED = FedPC(evidence="vote")

WORLDS = [("masking", False), ("masking", True), ("bfv", False), ("none", True)]
"""Protections, and whether a site leaves, so that a mask is recovered."""


@pytest.fixture(autouse=True)
def watched(monkeypatch):
    """Every site notes the questions whose sums it helps to open."""
    unmask = Rounds.unmask

    def watching(self, request):
        reply = unmask(self, request)
        noted = self.sums.__dict__.setdefault("noted", [])
        noted += [self.current.content.hex()] * (self.current.content.hex() not in noted)
        return reply

    monkeypatch.setattr(Rounds, "unmask", watching)


def helped_to_open(runtime):
    return tuple(runtime._sums.__dict__.get("noted", ()))


@dataclass(frozen=True)
class Seen:
    """What a run opened, round by round, and what it came to."""

    opened: tuple[tuple[str, str, int, str], ...]
    decisions: bytes
    contents: tuple[str, ...]


def carried_out(ward, leaves):
    """What a coordinator's run came to; it is honest but for what the engine alters."""
    if leaves:
        silence(ward, LEAVES, "unmask")
    ward.session.open()
    facts = Facts(5, N_SITES, min_contributors=3)
    outcome = run_program(ward.session, Replay(PLANNED.ask(facts), facts.present))
    ward.session.finish()
    assert len(ward.session.result) == 32
    return PLANNED.conclude(outcome, facts).decisions


def opened(ward):
    return tuple((r.kind, r.label, r.n_sites, r.aggregate) for r in ward.session.rounds)


OPERATIONS = {"share": "ask", "unmask": "unmask", "open": "open", "finish": "finish"}
"""At which operation a site leaves, by the step that a drop-out names."""


def departures(ward):
    """Which sites left, at which step of which round."""
    return tuple((left.site, left.step, left.round) for left in ward.session.dropouts)


@cache
def honest_without(protection, gone):
    """What an honest coordinator sees whose sites leave as they are said to have left."""
    ward = Ward(protection, n_sites=N_SITES, algorithm=PLANNED)
    call, dead, asked = ward.engine.call, set(), Counter()

    def losing(operation, messages, *, timeout_s):
        asked[operation] += 1
        for site, step, number in gone:
            if operation == OPERATIONS[step] and (step == "finish" or asked["ask"] == number):
                dead.add(site)
        alive = {site: message for site, message in messages.items() if site not in dead}
        return call(operation, alive, timeout_s=timeout_s)

    ward.engine.call = losing
    decisions = b""
    with suppress(SiteUnreachableError):
        decisions = carried_out(ward, leaves=False)
    assert departures(ward)[: len(gone)] == gone
    contents = [helped_to_open(site) for site in ward.runtimes.values()]
    return Seen(opened(ward), decisions, max(contents, key=len))


@cache
def honest(protection, leaves):
    ward = Ward(protection, n_sites=N_SITES, algorithm=PLANNED)
    sent = []

    def tamper(operation, site, message):
        sent.append((operation, site))
        return message

    ward.engine.tamper = tamper
    decisions = carried_out(ward, leaves)
    contents = helped_to_open(ward.runtimes["hospital-0"])
    return Seen(opened(ward), decisions, contents), tuple(sent)


# ------------------------------------------------------------------ every value, a little different


def altered(source, value, earlier=()):
    """Another value of the same type: near to it, out of all bounds, or seen before."""
    if earlier and source.random() < 0.25:
        return source.choice(earlier)
    kinds = {int: altered_int, bytes: altered_bytes, str: altered_str, tuple: altered_tuple,
             dict: altered_dict, type(None): altered_nothing}  # fmt: skip
    return kinds.get(type(value), altered_struct)(source, value)


def altered_nothing(source, _value):
    return source.choice([0, b"", "", (), {}, False])


def altered_int(source, value):
    return source.choice([value + 1, value - 1, -value, 0, -1, 2**31, 2**63 - 1, -(2**63)])


def altered_str(source, value):
    return source.choice(["", value + "x", value[1:], value.upper(), "fedcmfs", "none", "\0"])


def altered_bytes(source, value):
    how = source.randrange(6)
    if how == 0 or not value:
        return source.randbytes(source.randrange(40))
    place = source.randrange(len(value))
    if how <= 2:
        flipped = value[place] ^ (1 << source.randrange(8))
        return value[:place] + bytes([flipped]) + value[place + 1 :]
    if how == 3:
        return value[:place]
    if how == 4:
        return value + source.randbytes(source.randrange(1, 9))
    return bytes(len(value))


def altered_tuple(source, value):
    how = source.randrange(5)
    if how == 0 or not value:
        return ()
    place = source.randrange(len(value))
    if how == 1:
        return value[:place] + value[place + 1 :]
    if how == 2:
        return (*value, value[place])
    if how == 3:
        return value[::-1]
    return (*value[:place], altered(source, value[place]), *value[place + 1 :])


def altered_dict(source, value):
    changed = dict(value)
    name = source.choice([*sorted(value), "new"])
    if name in changed and source.random() < 0.5:
        del changed[name]
    else:
        changed[name] = source.choice([None, 0.2, 7, "vote", [1, 2], {"a": 1}, float("nan")])
    return changed


def altered_struct(source, value):
    name = source.choice(value.__struct_fields__)
    return msgspec.structs.replace(value, **{name: altered(source, getattr(value, name))})


@dataclass
class Alteration:
    """Alters one field of the nth message of an operation, for one site or for all.

    Where it is the plan's, the message's session is named after the plan that comes of it or not.
    """

    operation: str
    field: str
    site: str
    number: int
    named: bool
    seed: int

    def begin(self, ward):
        """The engine's tampering, in one run."""
        source = Random(self.seed)
        earlier, made, seen = [], {}, Counter()

        def tamper(operation, site, message):
            if operation != self.operation:
                return message
            seen[site] += 1
            body = decode(read_envelope(message).body, REQUESTS[operation])
            value = getattr(body, self.field)
            if self.site not in (site, "all") or seen[site] != self.number:
                earlier.append(value)
            elif message not in made:
                other = altered(source, value, earlier)
                note(f"{value!r:.60} becomes {other!r:.60}")
                body = msgspec.structs.replace(body, **{self.field: other})
                session = body.session if operation == "invite" and self.named else None
                made[message] = ward.message(operation, body, session=session)
            return made.get(message, message) if self.site in (site, "all") else message

        return tamper


@st.composite
def alterations(draw, sent):
    """Any field of any message that was sent in an honest run."""
    operation = draw(st.sampled_from(sorted({operation for operation, _ in sent})))
    told = [site for own, site in sent if own == operation]
    return Alteration(
        operation,
        draw(st.sampled_from(REQUESTS[operation].__struct_fields__)),
        draw(st.sampled_from([*sorted(set(told)), "all"])),
        draw(st.integers(1, max(told.count(site) for site in told))),
        draw(st.booleans()),
        draw(st.integers(0, 2**32)),
    )


@pytest.mark.parametrize(("protection", "leaves"), WORLDS)
def test_an_altered_field_of_a_message_is_named_or_changes_nothing(protection, leaves):
    whole, sent = honest(protection, leaves)
    usual = ((LEAVES, "unmask", 1),) if leaves else ()

    @settings(max_examples=50 if protection == "masking" else 25)
    @given(alteration=alterations(sent))
    def check(alteration):
        ward = Ward(protection, n_sites=N_SITES, algorithm=PLANNED)
        ward.engine.tamper = alteration.begin(ward)
        ended, decisions = None, b""
        try:
            decisions = carried_out(ward, leaves)
        except CipherdagError as error:
            ended = error
        note(f"{type(ended).__name__}: {ended}")
        event(f"{alteration.operation} {alteration.field}: {type(ended).__name__}")
        # a site that refused in a round is named as one that left; nothing else is different
        gone = departures(ward)
        seen = whole if gone == usual else honest_without(protection, gone)
        if ended is None:
            assert opened(ward) == seen.opened
            assert decisions == seen.decisions
        # a site that ran into an error of its own was not prepared for the message
        assert not any(
            isinstance(site.refused, SiteComputationError) for site in ward.runtimes.values()
        )
        assert opened(ward) == seen.opened[: len(ward.session.rounds)]
        # nor did any site help to open what the plan does not ask, or in another order
        for runtime in ward.runtimes.values():
            own = helped_to_open(runtime)
            assert own == seen.contents[: len(own)]

    check()


def test_the_honest_plan_asks_what_its_program_asks():
    """So that a prefix of it is a prefix of the plan."""
    for protection, leaves in WORLDS[:2]:
        whole, sent = honest(protection, leaves)
        assert {operation for operation, _ in sent} >= {"invite", "offers", "sealed", "ask"}
        assert ("recover" in {operation for operation, _ in sent}) == leaves
        assert len(whole.contents) == len(whole.opened) == 10
        first = next(PLANNED.ask(Facts(5, N_SITES, min_contributors=3)))
        assert whole.contents[0] == content_digest(first).hex()
