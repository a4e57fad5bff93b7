"""Coordinators that leave the plan, refused by every site that runs it itself."""

import zlib
from dataclasses import dataclass

import hospital_folders
import msgspec
import numpy as np
import pytest
from adversary import Ward, refused, send_instead, tags_for, votes
from halfway import Halfway

from cipherdag import FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.errors import (
    AggregateRangeError,
    CipherdagError,
    ForgedSumError,
    InconsistentQuestionError,
    KeyAgreementError,
    MalformedMessageError,
    PolicyRefusedError,
    ProgramMismatchError,
    RefusedError,
    ReplayError,
    ResultMismatchError,
    SignatureError,
    SiteUnreachableError,
)
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.privacy.wire import decode, encode, pack
from cipherdag.program import program
from cipherdag.program.program import Program, installed_program
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.protocol.messages import (
    Ask,
    Envelope,
    Finish,
    Share,
    Unmask,
    _signed_parts,
    content_digest,
    read_envelope,
    seal_envelope,
)
from cipherdag.protocol.plan import PLAN_FORMAT, make_plan
from cipherdag.protocol.set_up_messages import Offer, Offers, Sealed
from cipherdag.questions.disclosure import Quantity, sums
from cipherdag.questions.encodings import Encoding
from cipherdag.sites.record.ledger import read_releases

PLANNED = FedPC(evidence="vote")
LIAR = "hospital-2"


# ------------------------------------------------------------------ other questions and other steps


@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_a_question_that_the_coordinator_thought_of_itself_is_refused(rounds):
    run = Halfway(rounds)
    own = run.ask(content=content_digest(votes(0.011)))
    assert run.refusals("ask", own) == {InconsistentQuestionError}
    # nor does it open under the digest of another answer
    assert run.refusals("unmask", Unmask(bytes(32), ())) == {ReplayError}


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_question_of_another_step_is_refused_under_this_one(earlier):
    run = Halfway(2)
    own = run.ask(content=content_digest(run.questions[earlier]))
    assert run.refusals("ask", own) == {InconsistentQuestionError}


@pytest.mark.parametrize("step", [-1, 0, 1, 2, 4, 5, 2**31, 2**62])
def test_no_step_is_skipped_or_repeated(step):
    run = Halfway(2)
    for content in (content_digest(run.question), content_digest(run.questions[-1])):
        assert run.refusals("ask", run.ask(step=step, content=content)) == {ReplayError}
    assert len(run.answers()) == 4  # the plan's own next step is answered all the same


@pytest.mark.parametrize("number", [1, 2, 3, 4, -1, 2**40])
def test_a_step_that_was_opened_is_not_asked_under_any_number(number):
    run = Halfway(2)
    content = content_digest(run.questions[1])
    for participants in ((0, 1, 2, 3), (0, 1, 2)):
        for previous in (run.packed[0], run.packed[1], b""):
            again = run.ask(
                number=number, participants=participants, step=2, content=content, previous=previous
            )
            # the last request itself, byte for byte, gets the bytes that it had before
            if (number, participants, previous) == (2, (0, 1, 2, 3), run.packed[0]):
                for site in run.ward.runtimes:
                    reply = run.reply("ask", again, site)
                    assert ("ask", site, reply) in run.ward.engine.received
                continue
            asked = {refused(run.reply("ask", again, site)) for site in list(run.ward.runtimes)[:3]}
            assert asked == {ReplayError}
    assert run.seeds_that_left() == run.opened
    assert len(run.answers()) == 4


def test_a_step_that_was_given_up_is_asked_again_without_a_sum_only():
    run = Halfway(2)
    run.answers()
    for previous in (*run.packed, bytes(1)):
        assert run.refusals("ask", run.ask(number=4, previous=previous)) == {ReplayError}
    assert run.refusals("ask", run.ask(number=4, step=4, previous=b"")) == {ReplayError}
    again = run.ask(number=4, participants=(0, 1, 2), previous=b"")
    assert read_envelope(run.reply("ask", again)).topic == "share"


def test_a_plan_that_has_ended_asks_nothing_more():
    run = Halfway(0)
    run.session._step = 0
    run_program(run.session, Replay(PLANNED.ask(Facts(5, 4, min_contributors=3))))
    run.opened = run.seeds_that_left()
    for content in (content_digest(run.question), bytes(32), b""):
        assert run.refusals("ask", run.ask(content=content)) == {ReplayError}


# ------------------------------------------------------------------ other sums


def altered(packed, change):
    """A packed sum with some words changed, packed again."""
    words = np.frombuffer(zlib.decompress(packed), dtype="<u8").copy()
    change(words)
    return pack(words.tobytes())


def one_more_vote(words):
    words[2] = (words[2] + 1) % WORD_MODULI[0]


def one_vote_less(words):
    words[-1] = (words[-1] - 1) % WORD_MODULI[0]


def another_tag(words):
    words[1] ^= np.uint64(1)


def another_check_word(words):
    words[0] = 1


def not_reduced(words):
    words += np.uint64(WORD_MODULI[0])


def all_bits(words):
    words[:] = np.uint64(2**64 - 1)


def nothing(words):
    words[:] = 0


CHANGES = (
    one_more_vote,
    one_vote_less,
    another_tag,
    another_check_word,
    not_reduced,
    all_bits,
    nothing,
)


@pytest.mark.parametrize("protection", ["masking", "bfv", "none"])
def test_a_sum_that_was_altered_is_forged(protection):
    run = Halfway(2, protection)
    for change in CHANGES if protection != "bfv" else (another_check_word, another_tag, nothing):
        forged = altered(run.packed[-1], change)
        assert run.refusals("ask", run.ask(previous=forged)) == {ForgedSumError}
        assert run.refusals("finish", Finish(rounds=2, previous=forged)) == {ForgedSumError}
    assert len(run.answers()) == 4


def test_a_site_records_whose_a_forged_sum_is_and_what_to_do():
    run = Halfway(2)
    forged = altered(run.packed[-1], one_more_vote)
    run.reply("ask", run.ask(previous=forged), "hospital-3")
    error = run.ward.runtimes["hospital-3"].refused
    assert error.message.startswith("round 2 over 'hospital-0', 'hospital-1', 'hospital-2', 'hos")
    assert error.message.endswith("sums in order before it: 1")
    assert "disjoint groups of at least min_sites" in error.remedy


def test_a_sum_in_words_that_are_not_reduced_is_refused():
    """They stand for the same residues, so that the tags alone would let them pass."""
    run = Halfway(2)
    for number in (2, 3):

        def change(words, number=number):
            words[number] += np.uint64(WORD_MODULI[0])

        (error,) = run.refusals("ask", run.ask(previous=altered(run.packed[-1], change)))
        assert error in (ForgedSumError, AggregateRangeError)
    assert len(run.answers()) == 4


def test_the_sum_of_another_round_is_refused_at_equal_length():
    run = Halfway(6)
    lengths = [len(zlib.decompress(packed)) for packed in run.packed]
    assert lengths[4] == lengths[5]
    assert run.refusals("ask", run.ask(previous=run.packed[4])) == {ForgedSumError}
    assert run.refusals("ask", run.ask(previous=run.packed[0])) == {MalformedMessageError}
    assert len(run.answers()) == 4


def test_a_sum_of_fewer_sites_is_forged():
    """Unprotected, so that the coordinator can make it; what the masks keep from it anyway."""
    run = Halfway(1, "none")
    shares = {
        site: np.frombuffer(decode(read_envelope(reply).body, Share).share, dtype="<u8")
        for operation, site, reply in run.ward.engine.received
        if operation == "ask"
    }
    whole = np.sum([words.astype(object) for words in shares.values()], axis=0) % WORD_MODULI[0]
    assert pack(whole.astype("<u8").tobytes()) == run.packed[0]
    for share in shares.values():
        own = share.astype(object)
        for words in (whole - own, whole + own, 2 * whole - own, own):
            forged = pack((words % WORD_MODULI[0]).astype("<u8").tobytes())
            assert run.refusals("ask", run.ask(previous=forged)) == {ForgedSumError}


def test_a_sum_that_is_packed_otherwise_than_a_sum_is_malformed():
    run = Halfway(2)
    packed = run.packed[-1]
    content = zlib.decompress(packed)
    bomb = zlib.compress(bytes(2**28), level=9)
    raw = zlib.compressobj(wbits=-15)
    bad = [
        b"",
        b"\x00",
        packed[:-1],
        packed[:-4],
        packed + b"\x00",
        packed + packed,
        pack(b""),
        pack(content[:-8]),
        pack(content + bytes(8)),
        pack(content + b"\x00"),
        content,
        bomb,
        zlib.compress(content + bytes(2**28), level=9),
        raw.compress(content) + raw.flush(),
        # a dictionary that the sites do not have
        zlib.compressobj(zdict=b"words").compress(content),
    ]
    for previous in bad:
        assert run.refusals("ask", run.ask(previous=previous)) == {MalformedMessageError}
        assert run.refusals("finish", Finish(rounds=2, previous=previous)) == {
            MalformedMessageError
        }
    assert len(run.answers()) == 4


def test_a_site_that_refuses_what_it_was_sent_counts_as_one_that_left():
    """Its reply says no reason, so it cannot be told from a site whose own answer is too large.

    It is in the sum neither before nor after: nothing is left to subtract.
    """
    run = Halfway(2)
    cut = run.ask(previous=run.packed[-1][:-1])
    run.ward.engine.tamper = lambda operation, site, message: (
        run.ward.message("ask", cut) if (operation, site) == ("ask", LIAR) else message
    )
    run.session.ask(run.question)
    (left,) = run.session.dropouts
    assert (left.site, left.in_sum, left.reason) == (LIAR, False, RefusedError.summary)
    replies = [r for o, site, r in run.ward.engine.received if (o, site) == ("ask", LIAR)]
    assert refused(replies[-1]) is MalformedMessageError
    others = {site: [*own, 4] for site, own in run.opened.items() if site != LIAR}
    assert run.seeds_that_left() == {**run.opened, **others}
    assert run.session.rounds[-1].n_sites == 3


@pytest.mark.parametrize("previous", [b"\x00", pack(b""), pack(bytes(96))])
def test_no_sum_leads_to_the_first_step(previous):
    run = Halfway(0)
    assert run.refusals("ask", run.ask(previous=previous)) == {ReplayError}
    assert run.refusals("finish", Finish(rounds=0, previous=previous)) == {ReplayError}
    assert len(run.answers()) == 4


def test_sites_that_are_told_one_sum_in_other_bytes_do_not_agree():
    run = Halfway(2)
    again = zlib.compress(zlib.decompress(run.packed[-1]), level=9)
    assert again != run.packed[-1]
    told = dict.fromkeys(run.ward.runtimes, run.ask()) | {LIAR: run.ask(previous=again)}
    shares = {
        position: decode(read_envelope(run.reply("ask", ask, site)).body, Share)
        for position, (site, ask) in enumerate(told.items())
    }
    for position, site in enumerate(told):
        request = Unmask(shares[position].digest, tags_for(position, shares))
        assert refused(run.reply("unmask", request, site)) is InconsistentQuestionError
    assert run.seeds_that_left() == run.opened


@pytest.mark.parametrize(
    ("more", "said"),
    [(sums(Quantity.BELIEFS), "beliefs in every edge"), ((), "what it does not name")],
)
def test_a_segment_that_the_plan_did_not_declare_is_refused(monkeypatch, more, said):
    kind = type(next(PLANNED.ask(Facts(5, 3, min_contributors=3))))
    opened = kind.encodings.fget
    monkeypatch.setattr(
        kind, "encodings", property(lambda own: (*opened(own), Encoding(1, 1.0, more)))
    )
    ward = Ward.opened(algorithm=PLANNED)
    with pytest.raises(CipherdagError):
        run_program(ward.session, Replay(PLANNED.ask(Facts(5, 3, min_contributors=3))))
    for runtime in ward.runtimes.values():
        assert type(runtime.refused) is PolicyRefusedError
        assert f"would open {said}, which the plan did not declare" in runtime.refused.message
        left = {each.kind for each in read_releases(runtime.ledger.lines)}
        assert left == {"offer", "seals", "schema-digest", "refusal"}


# ------------------------------------------------------------------ other plans


def changed(plan, **changes):
    return msgspec.structs.replace(plan, **changes)


def test_a_session_that_is_not_named_after_its_plan_is_refused():
    ward = Ward(algorithm=PLANNED)
    plan = ward.session._plan
    runtime = ward.runtimes["hospital-0"]
    for session, other in (
        (bytes(16), plan),
        (plan.digest[16:], plan),
        (plan.session, changed(plan, purpose="something else")),
        (plan.session, changed(plan, parameters=plan.parameters | {"alpha": 0.2})),
        (plan.session, changed(plan, cohort=plan.cohort[::-1])),
    ):
        reply = runtime.handle("invite", ward.message("invite", other, session=session))
        assert refused(reply) is MalformedMessageError
    assert ward.session.open() == 5


@pytest.mark.parametrize(
    "changes", [{"format": 0}, {"format": PLAN_FORMAT + 1}, {"nonce": b""}, {"nonce": bytes(17)}]
)
def test_a_plan_of_another_format_is_refused(changes):
    ward = Ward(algorithm=PLANNED)
    plan = changed(ward.session._plan, **changes)
    reply = ward.runtimes["hospital-0"].handle(
        "invite", ward.message("invite", plan, session=plan.session)
    )
    assert refused(reply) is MalformedMessageError


@pytest.mark.parametrize(
    "parameters",
    [b"\x81\xa1a\x81\x91\x01\x02", b"\x81\xa1a\x82\xa1b\x01\x02\x03", b"\x81\xa1a\x81\xc0\x01"],
)
def test_a_plan_with_names_that_are_no_text_is_malformed(parameters):
    """It has no digest."""
    ward = Ward(algorithm=PLANNED)
    fields = msgspec.msgpack.decode(encode(ward.session._plan))
    body = bytes([0x80 | len(fields)])
    for name, value in fields.items():
        body += msgspec.msgpack.encode(name)
        body += parameters if name == "parameters" else msgspec.msgpack.encode(value)
    reply = ward.runtimes["hospital-0"].handle("invite", signed(ward, "invite", body))
    assert refused(reply) is MalformedMessageError


def signed(ward, operation, body, session=None):
    """An envelope over bytes that no struct would encode to."""
    honest = decode(ward.message(operation, Finish(rounds=0), session=session), Envelope)
    parts = _signed_parts(honest.session, honest.sender, operation, body)
    signature = ward.coordinator.sign(*parts)
    return encode(msgspec.structs.replace(honest, body=body, signature=signature))


CHANGED_PLANS = {
    "algorithm": "fedcmfs",
    "parameters": {"alpha": 0.2},
    "seed": 7,
    "program": "0" * 64,
    "versions": {},
    "protection": "bfv",
    "min_survivors": 1,
    "colluders": 0,
    "purpose": "harmless",
    "requester": "somebody",
    "created": "2020-01-01T00:00:00+00:00",
    "nonce": bytes(16),
}


@pytest.mark.parametrize("field", CHANGED_PLANS)
@pytest.mark.parametrize("named", [False, True])
def test_sites_that_are_shown_different_plans_do_not_set_up_a_session(field, named):
    """Whether or not the other plan's session is named after it."""
    ward = Ward(n_sites=3, algorithm=PLANNED)
    plan = ward.session._plan
    other = changed(plan, **{field: CHANGED_PLANS[field]})
    assert other.session != plan.session

    def tamper(operation, site, message):
        if site != LIAR:
            return message
        session = other.session if named else plan.session
        if operation == "invite":
            return ward.message("invite", other, session=session)
        topic = read_envelope(message).topic
        return ward.message(
            topic, decode(read_envelope(message).body, KINDS[topic]), session=session
        )

    ward.engine.tamper = tamper
    with pytest.raises((SignatureError, MalformedMessageError)):
        ward.session.open()
    left = [own for ledger in ward.ledgers.values() for own in read_releases(ledger.lines)]
    assert {own.kind for own in left} <= {"offer", "seals", "refusal"}
    assert not any(own.values for own in left)


KINDS = {"offers": Offers, "sealed": Sealed}


def test_offers_for_two_plans_are_not_taken_for_one_cohort_s():
    """The coordinator relays to each site whatever offers it has."""
    ward = Ward(n_sites=3, algorithm=PLANNED)
    plans = [ward.session._plan, changed(ward.session._plan, seed=1)]
    offers = {}
    for plan, sites in zip(plans, (list(ward.runtimes)[:2], [LIAR]), strict=True):
        for site in sites:
            message = ward.message("invite", plan, session=plan.session)
            offers[site] = ward.runtimes[site].handle("invite", message)
    relayed = Offers(envelopes=tuple(offers.values()))
    for plan, sites in zip(plans, (list(ward.runtimes)[:2], [LIAR]), strict=True):
        for site in sites:
            message = ward.message("offers", relayed, session=plan.session)
            assert refused(ward.runtimes[site].handle("offers", message)) is SignatureError
    # were a site to sign an offer for the other plan's session, it would still name its own plan
    moved = seal_envelope(
        ward.identities[LIAR],
        session=plans[0].session,
        sender=LIAR,
        topic="offer",
        body=decode(read_envelope(offers[LIAR]).body, Offer),
    )
    relayed = Offers(envelopes=(*list(offers.values())[:2], moved))
    message = ward.message("offers", relayed)
    for site in list(ward.runtimes)[:2]:
        assert refused(ward.runtimes[site].handle("offers", message)) is KeyAgreementError


def test_a_plan_is_carried_out_once():
    run = Halfway(2)
    plan = run.session._plan
    body = encode(plan)
    fields = list(msgspec.msgpack.decode(body).items())[::-1]
    otherwise = msgspec.msgpack.encode(dict(fields))
    assert otherwise != body
    assert decode(otherwise, type(plan)) == plan
    for site, runtime in run.ward.runtimes.items():
        rounds = runtime._current.rounds
        again = runtime.handle("invite", run.ward.message("invite", plan))
        # the same bytes get the offer that they got before, and nothing begins anew
        assert ("invite", site, again) in run.ward.engine.received
        assert refused(runtime.handle("invite", signed(run.ward, "invite", otherwise))) is (
            ReplayError
        )
        assert runtime._current.rounds is rounds
    assert len(run.answers()) == 4
    other = make_plan(plan.cohort, protection="masking", **run.ward.about)
    for runtime in run.ward.runtimes.values():
        message = run.ward.message("invite", other, session=other.session)
        assert read_envelope(runtime.handle("invite", message)).topic == "offer"
    assert run.refusals("invite", plan) == {ReplayError}


def test_a_plan_is_carried_out_once_whenever_the_site_was_started(tmp_path):
    hospitals = hospital_folders.hospitals(tmp_path)
    handlers = hospitals.handlers()
    session = hospitals.session(handlers)
    session.open()
    session.ask(votes())
    invite = seal_envelope(
        hospitals.coordinator,
        session=session._plan.session,
        sender="coordinator",
        topic="invite",
        body=session._plan,
    )
    for name in hospital_folders.NAMES:
        hospitals.restart(handlers, name)
        assert refused(handlers[name]("invite", invite)) is ReplayError
    hospitals.close()


# ------------------------------------------------------------------ other programs at a site


def carried_out(ward):
    """A whole run at the coordinator."""
    n_variables = ward.session.open()
    outcome = run_program(
        ward.session,
        Replay(PLANNED.ask(Facts(n_variables, len(ward.runtimes), min_contributors=3))),
    )
    ward.session.finish()
    return outcome


def with_program(programs):
    """A ward in which one site runs something else for the same plan."""
    ward = Ward(algorithm=PLANNED)
    ward.runtimes[LIAR]._programs = programs
    return ward


def test_a_site_that_has_another_program_installed_refuses_the_plan(monkeypatch):
    def elsewhere(plan, facts):
        with monkeypatch.context() as patch:
            patch.setattr(program, "program_digest", lambda name: "0" * 64)
            return installed_program(plan, facts)

    ward = with_program(elsewhere)
    with pytest.raises(ProgramMismatchError, match="another program") as caught:
        ward.session.open()
    assert caught.value.site == LIAR
    assert ward.session.rounds == ()


@pytest.mark.parametrize("digest", ["", "0" * 64, "f" * 63])
def test_a_plan_that_names_another_program_is_refused_by_every_site(digest):
    ward = Ward(algorithm=PLANNED)
    plan = changed(ward.session._plan, program=digest)
    session = ward.scripts.session(ward.engine, ward.coordinator, plan)
    with pytest.raises(ProgramMismatchError):
        session.open()
    replies = [reply for operation, _, reply in ward.engine.received if operation == "invite"]
    assert {refused(reply) for reply in replies} == {ProgramMismatchError}
    question = next(PLANNED.ask(Facts(5, 3, min_contributors=3)))
    ask = Ask(1, (0, 1, 2), 1, content_digest(question))
    message = ward.message("ask", ask, session=plan.session)
    for runtime in ward.runtimes.values():
        assert refused(runtime.handle("ask", message)) is ReplayError


@pytest.mark.parametrize(
    ("other", "rounds"),
    [
        (FedPC(evidence="vote", alpha=0.2), 0),
        (FedPC(evidence="vote", max_cond_size=0), 2),
        (FedPC(evidence="vote", voting=Voting(sepset="mean")), None),
    ],
)
def test_another_program_refuses_the_first_question_that_differs(other, rounds):
    ward = with_program(lambda _, facts: Program(Replay(other.ask(facts)), facts, other))
    honest = Ward(algorithm=PLANNED)
    carried_out(honest)
    with pytest.raises(SiteUnreachableError, match="it refused") as caught:
        carried_out(ward)
    assert caught.value.site == LIAR
    assert isinstance(ward.runtimes[LIAR].refused, InconsistentQuestionError | ReplayError)
    found = [(r.label, r.kind, r.aggregate) for r in ward.session.rounds]
    whole = [(r.label, r.kind, r.aggregate) for r in honest.session.rounds]
    assert found == whole[: len(found)]
    assert rounds is None or len(found) == rounds
    # the round in which they part is opened by no site
    opened = [r for r in read_releases(ward.ledgers[LIAR].lines) if r.kind == "mask-seeds"]
    assert len(opened) == len(found)


# ------------------------------------------------------------------ other results


@dataclass(frozen=True, slots=True)
class Otherwise(Program):
    """A program that comes to another result by the same questions."""

    @property
    def decisions(self):
        return bytes(32)


def test_a_site_that_comes_to_another_result_ends_the_run_by_name():
    def programs(plan, facts):
        own = installed_program(plan, facts)
        return Otherwise(own.replay, own.facts, own.algorithm)

    ward = with_program(programs)
    with pytest.raises(ResultMismatchError, match="another result") as caught:
        carried_out(ward)
    assert caught.value.site == LIAR
    assert ward.session.result == b""


@pytest.mark.parametrize("result", [b"", bytes(32), bytes(31)])
def test_a_site_that_says_another_result_ends_the_run_by_name(result):
    ward = Ward(algorithm=PLANNED)
    send_instead(ward, LIAR, "finish", result=lambda _: result)
    with pytest.raises(ResultMismatchError) as caught:
        carried_out(ward)
    assert caught.value.site == LIAR


def test_all_sites_say_one_result_and_every_plan_its_own():
    first, second = Ward(algorithm=PLANNED), Ward("none", algorithm=PLANNED)
    for ward in (first, second):
        carried_out(ward)
        assert len(ward.session.result) == 32
    assert first.session.result != second.session.result


def test_a_run_that_the_coordinator_ends_early_has_no_result():
    run = Halfway(3)
    run.session.finish()
    assert run.session.result == b""


def test_a_result_that_too_few_sites_confirm_is_none():
    """The last sum is checked by the last word alone: where sites refuse it, there is no result."""
    ward = Ward(n_sites=4, algorithm=PLANNED)
    forged = Finish(rounds=99, previous=pack(b""))

    def tamper(operation, site, message):
        return ward.message("finish", forged) if operation == "finish" else message

    ward.engine.tamper = tamper
    with pytest.raises(SiteUnreachableError, match="finish: no answer") as caught:
        carried_out(ward)
    assert ward.session.result == b""
    assert caught.value.remedy
    ward.engine.tamper = lambda operation, site, message: (
        ward.message("finish", forged) if (operation, site) == ("finish", LIAR) else message
    )
    ward.session.finish()
    assert len(ward.session.result) == 32
