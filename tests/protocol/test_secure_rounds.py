"""Rounds whose sums are never opened: what the sums say, roles that nobody chose, lies by name."""

import itertools
import os

import msgspec
import numpy as np
import pytest
from adversary import Ward, send_instead, silence, verdicts, votes
from site_logs import refused

from cipherdag.errors import (
    AggregateRangeError,
    CipherdagError,
    ComparisonKeyError,
    ForgedSumError,
    KeyAgreementError,
    MalformedMessageError,
    OpeningRefusedError,
    ParameterError,
    ReplayError,
    SessionLostError,
    ShareError,
    SiteUnreachableError,
)
from cipherdag.privacy.mpc import seat as seats
from cipherdag.privacy.mpc.batch import COORDINATOR
from cipherdag.privacy.mpc.messages import Collected, Contributed, Passed, Signed, Square, Verdicts
from cipherdag.privacy.wire import decode, encode, pack, unpack
from cipherdag.protocol.journal import GivenUp, Journal
from cipherdag.protocol.messages import Ask, Finish, Secure, Share, read_envelope
from cipherdag.protocol.set_up import roles_of
from cipherdag.protocol.set_up_messages import (
    DealerKeys,
    Offer,
    Offers,
    Seals,
    beacon_of,
    commitment,
)
from cipherdag.questions.question import Bundle
from cipherdag.sites.policy.policy import Policy

N_SITES = 6
STEPS = ("prepare", "square", "compare", "open")
TWO = Policy(min_sites=2)


def opened(n_sites=N_SITES, protection="masking", **options):
    if protection == "bfv":
        pytest.importorskip("tenseal")
    two = Policy(min_sites=2, allow_unprotected=protection == "none")
    return Ward.opened(protection, n_sites=n_sites, policy=two if n_sites == 2 else None, **options)


def roles(ward):
    return roles_of(ward.session._plan, ward.session._beacon)


def named(ward, site):
    return ward.session._plan.cohort[site].name


def positions(ward):
    """A site of every role, by the role's name."""
    own = roles(ward)
    found = {"first holder": own.holders[0], "second holder": own.holders[1]}
    if own.dealer != COORDINATOR:
        found["dealer"] = own.dealer
    if own.twin is not None:
        found["twin"] = own.twin
    left = [site for site in range(len(ward.session._plan.cohort)) if site not in own.sites]
    return found | ({"site": left[0]} if left else {})


def asking(n_sites, alpha=0.01):
    return verdicts(alpha, n_sites=n_sites)


def sent(ward, operation, kind):
    return [
        (site, decode(read_envelope(message).body, kind))
        for own, site, message in ward.engine.sent
        if own == operation
    ]


def received(ward, operation, kind):
    return [
        (site, decode(read_envelope(reply).body, kind))
        for own, site, reply in ward.engine.received
        if own == operation
    ]


def flipped(content, place):
    changed = bytearray(content)
    changed[place] ^= 1
    return bytes(changed)


# verdicts are what sums say


@pytest.mark.parametrize("n_sites", [2, 3, 4, 7])
@pytest.mark.parametrize("protection", ["masking", "bfv", "none"])
def test_verdicts_are_what_the_sums_say(n_sites, protection):
    ward = opened(n_sites, protection)
    cast = ward.session.ask(votes(1e-45))
    found = ward.session.ask(asking(n_sites, 1e-45))
    needed = 0 if n_sites < 3 else n_sites // 2 + 1
    assert (found == (cast < needed)).all()
    assert n_sites == 2 or 0 < found.sum() < len(found)
    # no sum of a secure round is masked, unmasked or opened
    carried = [own for own, _, _ in ward.engine.sent]
    assert carried.count("unmask") == n_sites
    ward.session.finish()


def test_several_questions_of_verdicts_are_one_round():
    ward = opened()
    both = ward.session.ask(Bundle(parts=(asking(6, 0.3), asking(6, 1e-45))))
    other = opened()
    one, two = (other.session.ask(asking(6, alpha)) for alpha in (0.3, 1e-45))
    assert (both == np.concatenate([one, two])).all()
    assert one.tolist() != two.tolist()
    assert [report.n_sites for report in ward.session.rounds] == [6]


def test_sums_and_verdicts_do_not_mix():
    ward = opened()
    with pytest.raises(ParameterError, match="not in one round"):
        ward.session.ask(Bundle(parts=(asking(6), votes())))


@pytest.mark.parametrize("n_sites", [2, 3, 4, 6])
def test_who_is_asked_what(n_sites):
    ward = opened(n_sites)
    ward.engine.sent.clear()
    ward.session.ask(asking(n_sites))
    own = roles(ward)
    asked = {}
    for site, request in sent(ward, "secure", Secure):
        asked.setdefault(request.verb, []).append(site)
    assert {named(ward, site) for site in own.sites} == set(asked["prepare"])
    for verb in STEPS[1:]:
        assert sorted(asked[verb]) == sorted(named(ward, site) for site in own.holders)
    assert {operation for operation, _, _ in ward.engine.sent} == {"ask", "secure"}
    # a dealer, or its twin, is never sent a masked sum or a label
    for site, request in sent(ward, "secure", Secure):
        if site in {named(ward, other) for other in (own.dealer, own.twin) if other in range(9)}:
            assert request.verb == "prepare"


# roles and keys follow from what nobody chose


def test_a_site_that_breaks_its_commitment_is_named():
    plan = Ward().session._plan
    chances = [os.urandom(32) for _ in plan.cohort]
    committed = [commitment(plan, site, own) for site, own in enumerate(chances)]
    assert len(beacon_of(plan, committed, chances)) == 32
    for wrong in (os.urandom(32), b"", chances[1] + b"\x00", chances[0]):
        with pytest.raises(KeyAgreementError, match="committed to") as told:
            beacon_of(plan, committed, [chances[0], wrong, chances[2]])
        assert told.value.site == plan.cohort[1].name


def test_a_commitment_is_for_one_cohort_and_one_site():
    plan, chance = Ward().session._plan, os.urandom(32)
    again = msgspec.structs.replace(plan, nonce=bytes(16))
    other = msgspec.structs.replace(plan, cohort=plan.cohort[::-1])
    own = commitment(plan, 0, chance)
    assert own == commitment(again, 0, chance)
    assert len({own, commitment(plan, 1, chance), commitment(other, 0, chance)}) == 3


@pytest.mark.parametrize("liar", ["hospital-0", "hospital-3"])
def test_sites_refuse_a_set_up_in_which_a_site_changed_its_number(liar):
    ward = Ward(n_sites=4)
    send_instead(ward, liar, "offers", chance=lambda _: os.urandom(32))
    with pytest.raises(KeyAgreementError, match="committed to"):
        ward.session.open()


def test_numbers_are_told_only_after_all_have_committed():
    ward = opened()
    offers, seals = received(ward, "invite", Offer), received(ward, "offers", Seals)
    assert len({offer.commitment for _, offer in offers}) == N_SITES
    chances = {own.chance for _, own in seals}
    assert len(chances) == N_SITES
    carried = b"".join(m for own, _, m in ward.engine.sent if own in ("invite", "offers"))
    carried += b"".join(m for own, _, m in ward.engine.received if own == "invite")
    assert not any(own in carried for own in chances)


def test_roles_are_the_same_in_every_round_and_at_every_party():
    ward = opened()
    for number in range(3):
        ward.session.ask(asking(6, 0.01 + number * 1e-6))
        for runtime in ward.runtimes.values():
            assert runtime._current.rounds.keys.secure_tests.context.roles == roles(ward)


# two sites: the coordinator deals by a key of its own


@pytest.mark.parametrize(
    "keys",
    [None, DealerKeys(b"", b""), DealerKeys(bytes(32), bytes(1184)), DealerKeys(b"x" * 32, b"y")],
)
def test_two_sites_refuse_a_coordinator_without_sound_keys(keys):
    ward = Ward(n_sites=2, policy=TWO)
    change_offers(ward, keys)
    with pytest.raises(KeyAgreementError):
        ward.session.open()


def test_more_sites_refuse_a_coordinator_that_would_deal():
    donor = Ward(n_sites=2, policy=TWO)
    donor.session.open()
    keys = sent(donor, "offers", Offers)[0][1].dealer
    ward = Ward(n_sites=3)
    change_offers(ward, keys)
    with pytest.raises(KeyAgreementError, match="deals for two sites"):
        ward.session.open()


def change_offers(ward, keys):
    def tamper(operation, site, message):
        if operation != "offers":
            return message
        offers = decode(read_envelope(message).body, Offers)
        return ward.message("offers", msgspec.structs.replace(offers, dealer=keys))

    ward.engine.tamper = tamper


@pytest.mark.parametrize("ciphertext", [b"", bytes(1087), bytes(1089)])
def test_a_site_without_a_ciphertext_for_the_coordinator_is_named(ciphertext):
    ward = Ward(n_sites=2, policy=TWO)
    send_instead(ward, "hospital-1", "offers", dealer=lambda _: ciphertext)
    with pytest.raises(KeyAgreementError, match="wrong length") as told:
        ward.session.open()
    assert told.value.site == "hospital-1"


def test_a_key_that_another_coordinator_holds_deals_nothing():
    """Of the two it is the sites' pinned coordinator whose keys count: another's unseal nothing."""
    ward = Ward(n_sites=2, policy=TWO)
    other = Ward(n_sites=2, policy=TWO)
    other.session.open()
    ward.session.open()
    ward.session._party = other.session._party
    with pytest.raises(CipherdagError):
        ward.session.ask(asking(2))


# a coordinator that lies


class StoppedError(Exception):
    """The coordinator has come as far as it should."""


def stopped(ward, verb, question):
    """What the coordinator would ask in a step, by site; nobody was asked it."""
    found, wanted = {}, 2

    def tamper(operation, site, message):
        if operation == "secure":
            request = decode(read_envelope(message).body, Secure)
            if request.verb == verb:
                found[site] = request
                count = len(roles(ward).sites) if verb == "prepare" else wanted
                if len(found) == count:
                    raise StoppedError
        return message

    ward.engine.tamper = tamper
    with pytest.raises(StoppedError):
        ward.session.ask(question)
    ward.engine.tamper = lambda operation, site, message: message
    return found


def asked(ward, site, request):
    return ward.runtimes[site].handle("secure", ward.message("secure", request))


REFUSALS = (ShareError, ComparisonKeyError, MalformedMessageError, ForgedSumError, ReplayError)


@pytest.mark.parametrize("verb", STEPS)
def test_an_altered_step_is_refused_and_ends_the_site_s_part(verb):
    for place in (0, 1, 40, -1, -20):
        ward = opened(4)
        requests = stopped(ward, verb, asking(4))
        for site, request in requests.items():
            altered = msgspec.structs.replace(request, content=flipped(request.content, place))
            assert refused(asked(ward, site, altered)) in REFUSALS
            # nothing is computed again from the same seeds, not even what was honest
            assert refused(asked(ward, site, request)) is ReplayError


@pytest.mark.parametrize("verb", STEPS)
def test_a_step_is_answered_once_and_the_same_bytes_again(verb):
    ward = opened(4)
    requests = stopped(ward, verb, asking(4))
    for site, request in requests.items():
        first = asked(ward, site, request)
        assert read_envelope(first).topic == "secured"
        assert asked(ward, site, request) == first
        longer = msgspec.structs.replace(request, content=request.content + b"\0")
        assert refused(asked(ward, site, longer)) is ReplayError


@pytest.mark.parametrize("verb", STEPS)
def test_steps_out_of_turn_round_or_use_are_refused(verb):
    ward = opened(4)
    ward.session.ask(votes())
    digest = received(ward, "ask", Share)[0][1].digest
    name = named(ward, 0)
    request = Secure(digest, verb, b"")
    assert refused(asked(ward, name, request)) is OpeningRefusedError
    other = msgspec.structs.replace(request, digest=bytes(32))
    assert refused(asked(ward, name, other)) is ReplayError
    ward.session.ask(asking(4))
    share = received(ward, "ask", Share)[-1][1]
    late = msgspec.structs.replace(request, digest=share.digest)
    for name in ward.runtimes:
        assert refused(asked(ward, name, late)) is ReplayError


def test_sites_with_other_questions_or_other_sites_do_not_unseal():
    """Only what all were asked alike can be put together: parts are bound to the batch."""
    ward = opened(6)
    question, digests = asking(6), {}
    replies, out = {}, positions(ward)["site"]
    first = min({*range(6)} - {out})
    for site in range(6):
        everyone = tuple(own for own in range(6) if site != first or own != out)
        ask = ward.asking(question, participants=everyone)
        name = named(ward, site)
        reply = ward.runtimes[name].handle("ask", ward.message("ask", ask))
        replies[site] = decode(read_envelope(reply).body, Share)
        digests[site] = replies[site].digest
    assert len(set(digests.values())) == 2
    own = roles(ward)
    holder = own.holders[0]
    parts = tuple(
        decode(replies[site].share, Contributed).first for site in range(6) if site != holder
    )
    request = Secure(digests[holder], "prepare", encode(Collected(parts)))
    assert refused(asked(ward, named(ward, holder), request)) is ShareError


def next_ask(ward, previous, alpha=0.4):
    """What the coordinator would ask next, if the last verdicts were these."""
    return ward.asking(
        votes(alpha), number=ward.session._number + 1, step=ward.session._step + 1,
        previous=previous, participants=ward.session._present,
    )  # fmt: skip


def test_bits_that_the_coordinator_alters_are_refused_by_every_site():
    ward = opened(4)
    ward.session.ask(asking(4, 0.2))
    of_another_round = unpack(ward.session._previous, 1 << 16, exactly=False)
    ward.session.ask(asking(4, 0.3))
    honest = decode(unpack(ward.session._previous, 1 << 16, exactly=False), Verdicts)
    replace = msgspec.structs.replace
    first, second = honest.signatures
    forgeries = [
        *(replace(honest, bits=flipped(honest.bits, place)) for place in range(len(honest.bits))),
        replace(honest, dealt=flipped(honest.dealt, 3)),
        replace(honest, signatures=(second, first)),
        replace(honest, signatures=(first, first)),
        replace(honest, signatures=(flipped(first, 9), second)),
        replace(honest, signatures=(first, second[:-1])),
        replace(honest, bits=b""),
        replace(honest, bits=honest.bits + b"\0"),
        replace(honest, bits=bytes([honest.bits[0] ^ 128]) + honest.bits[1:]),
        replace(honest, dealt=honest.dealt[:-1]),
    ]
    for forged in [*map(encode, forgeries), encode(honest) + bytes(2000), of_another_round]:
        request = next_ask(ward, pack(forged))
        for name in ward.runtimes:
            reply = ward.runtimes[name].handle("ask", ward.message("ask", request))
            assert refused(reply) in (ForgedSumError, MalformedMessageError)
            assert forged is not of_another_round or refused(reply) is ForgedSumError
    request = next_ask(ward, ward.session._previous)
    for name in ward.runtimes:
        reply = ward.runtimes[name].handle("ask", ward.message("ask", request))
        assert read_envelope(reply).topic == "share"


@pytest.mark.parametrize(
    "previous", [b"", b"\x00", pack(b""), pack(bytes(96)), pack(bytes(1 << 16))]
)
def test_what_is_no_verdicts_at_all_is_refused(previous):
    ward = opened(4)
    ward.session.ask(asking(4))
    reply = ward.runtimes[named(ward, 2)].handle(
        "ask", ward.message("ask", next_ask(ward, previous))
    )
    assert read_envelope(reply).topic == "refusal"
    if previous:
        finish = Finish(rounds=ward.session._number, previous=previous)
        reply = ward.runtimes[named(ward, 2)].handle("finish", ward.message("finish", finish))
        assert read_envelope(reply).topic == "refusal"


def test_a_question_of_verdicts_is_answered_once():
    ward = opened(4)
    ward.session.ask(asking(4))
    request = ward.asking(asking(4), number=2, step=2, previous=ward.session._previous)
    reply = ward.runtimes[named(ward, 0)].handle("ask", ward.message("ask", request))
    assert refused(reply) is ReplayError


def test_a_site_notes_what_is_opened_when_it_answers():
    """Nothing else of the round has to come for bits to be found with its parts."""
    ward = opened(6)
    name = named(ward, positions(ward)["site"])
    ward.engine.sent.clear()
    stopped(ward, "prepare", asking(6))
    sums = ward.runtimes[name]._sums
    assert sums.runs(but=b"") == 1
    assert sums._sums[0].sites == tuple(sorted(ward.runtimes))


# sites that lie


@pytest.mark.parametrize(
    "changes",
    [
        {"share": lambda own: own.share[:-1]},
        {"share": lambda own: own.share + b"\0"},
        {"share": lambda _: b""},
        {"tags": lambda _: (bytes(16),)},
        {"escrow": lambda _: (b"x",)},
    ],
)
def test_a_site_that_sends_more_or_less_than_its_parts_is_left_out(changes):
    ward = opened()
    liar = named(ward, positions(ward)["site"])
    send_instead(ward, liar, **changes)
    assert ward.session.ask(asking(6)).size
    assert [left.site for left in ward.session.dropouts] == [liar]


@pytest.mark.parametrize("field", ["first", "dealt", "again", "rest", "commitment"])
def test_a_part_that_does_not_unseal_ends_the_round_and_is_named(field):
    ward = opened()
    liar = named(ward, positions(ward)["site"])

    def altered(share):
        said = decode(share.share, Contributed)
        return encode(msgspec.structs.replace(said, **{field: flipped(getattr(said, field), 20)}))

    send_instead(ward, liar, share=altered)
    with pytest.raises(ShareError) as told:
        ward.session.ask(asking(6))
    assert told.value.site == liar


def say_in_step(ward, liar, verb, **changes):
    """A site with a role says something else in one step."""
    send_instead(ward, liar, "secure", **changes)
    lying, verbs = ward.engine.forge, iter(STEPS)

    def forge(operation, site, reply):
        if (operation, site) != ("secure", liar) or next(verbs) != verb:
            return reply
        return lying(operation, site, reply)

    ward.engine.forge = forge


@pytest.mark.parametrize("role", ["dealer", "twin", "first holder", "second holder"])
@pytest.mark.parametrize("verb", STEPS)
def test_a_false_answer_of_a_role_is_noticed_by_the_next_step(role, verb):
    ward = opened()
    if verb != "prepare" and "holder" not in role:
        return
    # behind the lengths of what it holds: a sealed word, a key or a bit is another
    say_in_step(
        ward, named(ward, positions(ward)[role]), verb, content=lambda own: flipped(own.content, -1)
    )
    with pytest.raises((ShareError, ComparisonKeyError, ForgedSumError, MalformedMessageError)):
        ward.session.ask(asking(6))


@pytest.mark.parametrize("verb", STEPS)
def test_a_holder_that_answers_of_another_round_is_named(verb):
    ward = opened()
    liar = named(ward, roles(ward).holders[1])
    say_in_step(ward, liar, verb, digest=lambda _: bytes(32))
    with pytest.raises(ShareError, match="another round") as told:
        ward.session.ask(asking(6))
    assert told.value.site == liar


def test_holders_that_say_other_bits_are_named():
    def turned(said):
        bits = decode(said.content, Signed)
        return encode(msgspec.structs.replace(bits, bits=flipped(bits.bits, 0)))

    ward = opened()
    say_in_step(ward, named(ward, roles(ward).holders[0]), "open", content=turned)
    with pytest.raises(ForgedSumError, match="say other bits"):
        ward.session.ask(asking(6))


def test_a_site_beyond_its_bound_is_left_out(monkeypatch):
    ward = opened(6)
    liar = named(ward, positions(ward)["site"])
    respondent = ward.runtimes[liar]._current.rounds.respondent
    honest = respondent.answer
    monkeypatch.setitem(vars(respondent), "answer", lambda question: honest(question) - 1000)
    assert ward.session.ask(asking(6)).size
    assert [left.site for left in ward.session.dropouts] == [liar]


def test_a_site_that_adds_a_quarter_of_the_ring_is_noticed_by_a_label(monkeypatch):
    """Of a sum that nobody opens nobody sees that it cannot be; the label of the range says so."""
    ward = opened(6)
    honest = seats.split_vector

    def shifted(batch, values, random_bytes):
        parts = honest(batch, values, random_bytes)
        if values.sum() == 0:  # nobody else answers with nothing but zeros
            quarters = np.uint64(1) << (batch.word_widths - 2).view(np.uint64)
            parts.rest = batch.vector.pack(batch.vector.unpack(parts.rest) + quarters)
        return parts

    liar = named(ward, positions(ward)["site"])
    respondent = ward.runtimes[liar]._current.rounds.respondent
    answer = respondent.answer
    monkeypatch.setitem(vars(respondent), "answer", lambda question: 0 * answer(question))
    monkeypatch.setattr(seats, "split_vector", shifted)
    with pytest.raises(AggregateRangeError, match="dealt by"):
        ward.session.ask(asking(6, 0.9))


# departures


@pytest.mark.parametrize("role", ["dealer", "twin", "first holder", "second holder", "site"])
@pytest.mark.parametrize("step", ["ask", "secure"])
@pytest.mark.parametrize("protection", ["masking", "bfv"])
def test_a_site_dies_in_any_step(role, step, protection):
    ward = opened(6, protection)
    dead = named(ward, positions(ward)[role])
    silence(ward, dead, step)
    if role != "site":
        about = "holder" if "holder" in role else role
        with pytest.raises(SiteUnreachableError, match=f"it is the {about}") as told:
            ward.session.ask(asking(6))
        assert told.value.site == dead
        assert "coordinator run --resume" in told.value.remedy
        assert told.value.exit_code == 5
        return
    found = ward.session.ask(asking(6))
    honest = opened(6)
    if step == "ask":
        silence(honest, dead, "ask")
        assert [left.site for left in ward.session.dropouts] == [dead]
        assert [report.n_sites for report in ward.session.rounds] == [5]
    present = 5 if step == "ask" else 6
    cast = honest.session.ask(votes())
    assert (found == (cast < present // 2 + 1)).all()
    if step == "ask":
        assert ward.session.ask(votes(0.2)).size
        ward.session.finish()


@pytest.mark.parametrize("verb", STEPS[1:])
@pytest.mark.parametrize("holder", [0, 1])
def test_a_holder_dies_after_it_answered_a_step(verb, holder):
    ward = opened(6)
    dead = named(ward, roles(ward).holders[holder])
    calls = itertools.count()
    honest = ward.engine.call

    def call(operation, messages, **options):
        if operation == "secure" and next(calls) == STEPS.index(verb):
            silence(ward, dead, "secure")
            return ward.engine.call(operation, messages, **options)
        return honest(operation, messages, **options)

    ward.engine.call = call
    with pytest.raises(SiteUnreachableError, match=f"holder .* round 1, {verb}") as told:
        ward.session.ask(asking(6))
    assert told.value.site == dead


@pytest.mark.parametrize("n_sites", [2, 3])
def test_of_so_few_sites_every_one_has_a_role(n_sites):
    ward = opened(n_sites)
    silence(ward, "hospital-1", "ask")
    with pytest.raises(SiteUnreachableError, match="secure tests"):
        ward.session.ask(asking(n_sites))


def test_a_question_is_repeated_over_fewer_sites_and_never_over_more():
    ward = opened(6)
    dead = named(ward, positions(ward)["site"])
    silence(ward, dead, "ask")
    ward.session.ask(asking(6))
    attempts = [
        ask for site, ask in sent(ward, "ask", Ask) if site == named(ward, roles(ward).dealer)
    ]
    assert [(ask.number, ask.step, len(ask.participants)) for ask in attempts] == [
        (1, 1, 6),
        (2, 1, 5),
    ]
    more = ward.asking(asking(6), number=3, step=1)
    other = next(name for name in ward.runtimes if name != dead)
    reply = ward.runtimes[other].handle("ask", ward.message("ask", more))
    assert read_envelope(reply).topic == "refusal"


# a coordinator that is restarted


def crashed(tmp_path, verb, n_sites=6):
    """A ward whose coordinator stopped before a step of its second round, and its journal."""
    path = tmp_path / "journal.jsonl"
    ward = Ward(n_sites=n_sites, policy=TWO if n_sites == 2 else None)
    restart(ward, path)
    if verb is not None:
        stopped(ward, verb, asking(n_sites, 0.3))
    ward.engine.sent.clear()
    restart(ward, path)
    return ward, path


def restart(ward, path):
    """The coordinator comes back, with its journal, and has asked the first question."""
    ward.session = ward.scripts.session(
        ward.engine, ward.coordinator, ward.session._plan, journal=Journal(path)
    )
    ward.session.open()
    ward.session.ask(asking(len(ward.tables), 0.2))


@pytest.mark.parametrize("verb", [None, *STEPS[:-1]])
def test_an_unfinished_round_is_repeated_and_a_finished_one_is_not(tmp_path, verb):
    ward, path = crashed(tmp_path, verb)
    assert not ward.engine.sent
    honest = opened()
    expected = honest.session.ask(asking(6, 0.3))
    assert (ward.session.ask(asking(6, 0.3)) == expected).all()
    numbers = {ask.number for _, ask in sent(ward, "ask", Ask)}
    assert numbers == {2, 3}
    given_up = [own for own in Journal(path).entries if isinstance(own, GivenUp)]
    assert [own.number for own in given_up] == [2]
    ward.session.finish()


@pytest.mark.parametrize("signed", [0, 1, 2])
def test_bits_that_were_asked_for_are_the_same_when_asked_again(tmp_path, signed):
    """Whether none, one or both of the holders answered before the coordinator crashed."""
    ward, path = crashed(tmp_path, None)
    requests = stopped(ward, "open", asking(6, 0.3))
    before = [asked(ward, site, own) for site, own in list(requests.items())[:signed]]
    ward.engine.sent.clear()
    ward.engine.received.clear()
    restart(ward, path)
    expected = opened(6).session.ask(asking(6, 0.3))
    assert (ward.session.ask(asking(6, 0.3)) == expected).all()
    assert {own for own, _, _ in ward.engine.sent} == {"secure"}
    assert [own for _, _, own in ward.engine.received][:signed] == before
    ward.session.finish()


def test_a_holder_that_signed_bits_finds_no_others(tmp_path):
    """A round whose bits the coordinator has, asked once more: of a site that lies otherwise."""
    ward, _ = crashed(tmp_path, None)
    requests = stopped(ward, "open", asking(6, 0.3))
    for site, request in requests.items():
        assert read_envelope(asked(ward, site, request)).topic == "secured"
    last = max(ask.number for _, ask in sent(ward, "ask", Ask))
    again = ward.asking(asking(6, 0.3), number=last + 1, step=2)
    for site in requests:
        reply = read_envelope(ward.runtimes[site].handle("ask", ward.message("ask", again)))
        assert reply.topic == "refusal"
        assert "found once" in ward.runtimes[site].refused.message


@pytest.mark.parametrize("verb", STEPS[1:-1])
def test_after_masked_sums_left_a_question_is_repeated_once(tmp_path, verb):
    ward, _ = crashed(tmp_path, verb)
    silence(ward, named(ward, positions(ward)["site"]), "ask")
    with pytest.raises(ReplayError, match="same sites"):
        ward.session.ask(asking(6, 0.3))


def test_a_second_crash_after_masked_sums_left_ends_the_run(tmp_path):
    ward, path = crashed(tmp_path, "square")
    stopped(ward, "square", asking(6, 0.3))
    restart(ward, path)
    with pytest.raises(ReplayError, match="once at most"):
        ward.session.ask(asking(6, 0.3))


def test_a_coordinator_that_deals_for_two_sites_does_not_come_back(tmp_path):
    ward, _ = crashed(tmp_path, "square", n_sites=2)
    with pytest.raises(SessionLostError, match="deals for two sites") as told:
        ward.session.ask(asking(2, 0.3))
    assert "never written down" in told.value.remedy


def test_square_has_no_check_without_a_twin():
    for n_sites, checked in ((3, False), (4, True)):
        ward = opened(n_sites)
        requests = stopped(ward, "square", asking(n_sites))
        for request in requests.values():
            assert bool(decode(request.content, Square).check) == checked


def test_what_a_holder_is_passed_is_as_long_as_its_batch_says():
    ward = opened(4)
    for request in stopped(ward, "compare", asking(4)).values():
        assert len(decode(request.content, Passed).content) > 28
