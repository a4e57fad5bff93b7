"""Rounds whose sums stay closed: equal verdicts, roles that nobody chose, every lie by its name."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from adversary import Ward, send_instead, silence, verdicts, votes
from scipy import stats
from site_logs import refused

from cipherdag.errors import (
    AggregateRangeError,
    ComparisonKeyError,
    ForgedSumError,
    InconsistentQuestionError,
    KeyAgreementError,
    OpeningRefusedError,
    ReplayError,
    ShareError,
    SiteUnreachableError,
    SpentKeyError,
)
from cipherdag.privacy.comparison import dealing
from cipherdag.privacy.comparison.keys import ComparisonKeys
from cipherdag.privacy.comparison.verdicts import unpack as bits
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.tags import head_words
from cipherdag.protocol.messages import (
    Ask,
    Compare,
    Compared,
    Finish,
    Share,
    Verdicts,
    read_envelope,
    seal_envelope,
)
from cipherdag.protocol.set_up.beacon import CHANCE_BYTES, beacon_of, commitment, new_chance
from cipherdag.protocol.set_up.bodies import Offer, Seals
from cipherdag.protocol.verdict_rounds import (
    Roles,
    accepted,
)
from cipherdag.protocol.wire import decode, encode, pack, unpack
from cipherdag.questions.question import Bundle
from cipherdag.sites.session import handshake

N_SITES = 4
NAMES = [f"hospital-{number}" for number in range(N_SITES)]


def opened(protection="masking", n_sites=N_SITES):
    if protection == "bfv":
        pytest.importorskip("tenseal")
    ward = Ward(protection, n_sites=n_sites)
    ward.session.open()
    return ward


def roles(ward, step=None, sites=None):
    """Who has which role in the step that the session is at."""
    session = ward.session
    everyone = tuple(range(len(session._plan.cohort))) if sites is None else sites
    return Roles.of(session._beacon, step or session._step, everyone)


def received(ward, operation, kind):
    """All replies of an operation, by site, in order."""
    return [
        (site, decode(read_envelope(reply).body, kind))
        for own, site, reply in ward.engine.received
        if own == operation
    ]


def sent(ward, operation, kind):
    return [
        (site, decode(read_envelope(message).body, kind))
        for own, site, message in ward.engine.sent
        if own == operation
    ]


# verdicts are what sums say


@pytest.mark.parametrize("protection", ["masking", "bfv", "none"])
def test_verdicts_are_what_the_sums_say(protection):
    ward = opened(protection)
    cast = ward.session.ask(votes(1e-45))
    found = ward.session.ask(verdicts(1e-45))
    assert (found == (cast < 3)).all()
    assert 0 < found.sum() < len(found)
    ward.session.finish()


def test_several_questions_of_verdicts_are_one_round():
    ward = opened()
    both = ward.session.ask(Bundle(parts=(verdicts(0.3), verdicts(1e-45))))
    other = opened()
    one, two = (other.session.ask(verdicts(alpha)) for alpha in (0.3, 1e-45))
    assert (both == np.concatenate([one, two])).all()
    assert one.tolist() != two.tolist()


def test_sums_and_verdicts_do_not_mix():
    ward = opened()
    with pytest.raises(Exception, match="not in one round"):
        ward.session.ask(Bundle(parts=(verdicts(), votes())))


def test_every_site_has_every_role_in_its_turn(monkeypatch):
    # of numbers drawn anew one run in eight has no turn for some site in so few rounds
    numbers = iter(range(1, N_SITES + 1))
    monkeypatch.setattr(handshake, "new_chance", lambda: bytes([next(numbers)]) * CHANCE_BYTES)
    ward, turns = opened(), []
    for number in range(12):
        ward.session.ask(verdicts(0.01 + number * 1e-6))
        turns.append(roles(ward))
    dealt = [site for site, share in received(ward, "ask", Share) if share.dealt is not None]
    assert dealt == [NAMES[own.dealer] for own in turns]
    asked = [site for site, _ in sent(ward, "compare", Compare)]
    assert asked == [NAMES[holder] for own in turns for holder in own.holders]
    for role in zip(*((own.dealer, *own.holders) for own in turns), strict=True):
        assert set(role) == set(range(N_SITES))


# roles follow from what nobody chose


def test_a_site_that_tells_another_number_than_it_committed_to_is_named():
    plan = Ward().session._plan
    chances = [new_chance() for _ in plan.cohort]
    committed = [commitment(plan, site, own) for site, own in enumerate(chances)]
    assert len(beacon_of(plan, committed, chances)) == 32
    for wrong in (new_chance(), b"", chances[1] + b"\x00", chances[0]):
        with pytest.raises(KeyAgreementError, match="committed to") as told:
            beacon_of(plan, committed, [chances[0], wrong, chances[2]])
        assert told.value.site == plan.cohort[1].name


def test_a_commitment_is_for_one_plan_and_one_site():
    plan, chance = Ward().session._plan, new_chance()
    other = msgspec.structs.replace(plan, nonce=bytes(16))
    own = commitment(plan, 0, chance)
    assert len({own, commitment(plan, 1, chance), commitment(other, 0, chance)}) == 3


@pytest.mark.parametrize("liar", ["hospital-0", "hospital-3"])
def test_sites_refuse_a_set_up_in_which_a_site_changed_its_number(liar):
    ward = Ward(n_sites=N_SITES)
    send_instead(ward, liar, "offers", chance=lambda _: new_chance())
    with pytest.raises(KeyAgreementError, match="committed to"):
        ward.session.open()


def test_numbers_are_told_only_after_all_have_committed():
    ward = opened()
    offers = received(ward, "invite", Offer)
    seals = received(ward, "offers", Seals)
    assert len({offer.commitment for _, offer in offers}) == N_SITES
    chances = {own.chance for _, own in seals}
    assert len(chances) == N_SITES
    carried = b"".join(m for own, _, m in ward.engine.sent if own in ("invite", "offers"))
    carried += b"".join(m for own, _, m in ward.engine.received if own == "invite")
    assert not any(own in carried for own in chances)


# who sees what


@pytest.mark.parametrize("protection", ["masking", "bfv"])
def test_the_dealer_is_never_sent_what_was_opened(protection):
    ward = opened(protection)
    for number in range(8):
        ward.engine.sent.clear()
        ward.session.ask(verdicts(0.01 + number * 1e-6))
        dealer, holders = roles(ward).dealer, roles(ward).holders
        asked = {own: {site for o, site, _ in ward.engine.sent if o == own} for own in
                 ("ask", "unmask", "open", "compare")}  # fmt: skip
        assert asked["compare"] == {NAMES[own] for own in holders}
        assert NAMES[dealer] not in asked["compare"] | asked["open"]
        assert (len(asked["open"]) == 1) == (protection == "bfv")
    # nor afterwards: what leads to the next step are signed shares, and no word of the sum
    ward.session.ask(verdicts(0.5))
    words = {compare.blinded for _, compare in sent(ward, "compare", Compare)}
    asks = [ask.previous for _, ask in sent(ward, "ask", Ask) if ask.previous]
    told = b"".join(unpack(previous, 1 << 20, exactly=False) for previous in asks)
    assert told
    # after the head of a row come the blinded sums
    assert not any(own[at : at + 8] in told for own in words for at in range(16, len(own), 8))


def test_dealer_and_others_refuse_to_open_or_compare_what_is_not_theirs():
    ward = opened("bfv")
    ward.session.ask(verdicts())
    own = roles(ward)
    _, compare = sent(ward, "compare", Compare)[0]
    for site in set(range(N_SITES)) - set(own.holders):
        reply = ward.runtimes[NAMES[site]].handle("compare", ward.message("compare", compare))
        assert refused(reply) is OpeningRefusedError
    operation, site, message = next(own for own in ward.engine.sent if own[0] == "open")
    dealer = ward.runtimes[NAMES[own.dealer]]
    assert NAMES[own.dealer] != site
    assert refused(dealer.handle(operation, message)) is OpeningRefusedError


def test_nothing_is_compared_in_a_round_of_sums_before_unmasking_or_of_another_round():
    ward = opened()
    ward.session.ask(votes())
    digest = received(ward, "ask", Share)[0][1].digest
    request = Compare(digest=digest, blinded=b"", common=b"", sealed=b"")
    runtime = ward.runtimes[NAMES[0]]
    assert refused(runtime.handle("compare", ward.message("compare", request))) is (
        OpeningRefusedError
    )
    other = msgspec.structs.replace(request, digest=bytes(32))
    assert refused(runtime.handle("compare", ward.message("compare", other))) is ReplayError
    early = []

    def tamper(operation, site, message):
        if operation == "unmask" and not early:
            share = received(ward, "ask", Share)[-1][1]
            asked = msgspec.structs.replace(request, digest=share.digest)
            early.append(ward.runtimes[site].handle("compare", ward.message("compare", asked)))
        return message

    ward.engine.tamper = tamper
    ward.session.ask(verdicts())
    assert refused(early[0]) is OpeningRefusedError


# a coordinator that lies


def compares(ward):
    """The requests to both holders of the last round, and the holders' names."""
    found = sent(ward, "compare", Compare)[-2:]
    return [site for site, _ in found], [compare for _, compare in found]


class StoppedError(Exception):
    """The coordinator has come as far as it should."""


def stopped_before_comparing(ward, question):
    """What the coordinator would ask the holders, and their names; they were not asked."""
    found = {}

    def tamper(operation, site, message):
        if operation == "compare":
            found[site] = decode(read_envelope(message).body, Compare)
            if len(found) == 2:
                raise StoppedError
        return message

    ward.engine.tamper = tamper
    with pytest.raises(StoppedError):
        ward.session.ask(question)
    return list(found), list(found.values())


def altered(compare, **changes):
    return msgspec.structs.replace(compare, **changes)


def flipped(content, place):
    changed = bytearray(content)
    changed[place] ^= 1
    return bytes(changed)


def test_a_holder_tells_its_shares_once_and_of_nothing_but_the_sites_sum():
    """A second point under one key would tell how far two sums lie apart."""
    ward = opened()
    (name, _), (compare, other) = stopped_before_comparing(ward, verdicts())
    site = ward.runtimes[name]

    def answer(request):
        return site.handle("compare", ward.message("compare", request))

    size = len(compare.blinded)
    for place in [*range(0, size, 7), size - 1]:
        reply = answer(altered(compare, blinded=flipped(compare.blinded, place)))
        assert refused(reply) in (ForgedSumError, AggregateRangeError)
    for place in range(0, len(compare.common), 97):
        reply = answer(altered(compare, common=flipped(compare.common, place)))
        assert refused(reply) is ComparisonKeyError
    for place in range(len(compare.sealed)):
        reply = answer(altered(compare, sealed=flipped(compare.sealed, place)))
        assert refused(reply) is ComparisonKeyError
    assert refused(answer(altered(compare, sealed=other.sealed))) is ComparisonKeyError
    assert refused(answer(altered(compare, common=compare.common[:-16]))) is ComparisonKeyError
    first = answer(compare)
    assert read_envelope(first).topic == "compared"
    assert answer(compare) == first  # the same bytes again
    again = msgspec.structs.replace(compare, blinded=compare.blinded + b"")
    moved = altered(compare, blinded=flipped(compare.blinded, 0))
    assert answer(again) == first
    assert refused(answer(moved)) is SpentKeyError


def test_keys_of_another_round_are_refused_by_name():
    ward = opened()
    ward.session.ask(verdicts(0.2))
    _, before = compares(ward)
    (name, _), (compare, _) = stopped_before_comparing(ward, verdicts(0.3))
    for old in before:
        for mixed in (altered(compare, common=old.common), altered(compare, sealed=old.sealed)):
            request = ward.message("compare", mixed)
            assert refused(ward.runtimes[name].handle("compare", request)) is ComparisonKeyError


def next_ask(ward, previous, alpha=0.4):
    """What the coordinator would ask next, if the last verdicts were these."""
    return ward.asking(
        votes(alpha), number=ward.session._number + 1, step=ward.session._step + 1,
        previous=previous, participants=ward.session._present,
    )  # fmt: skip


def test_a_verdict_that_the_coordinator_alters_is_refused_by_every_site():
    ward = opened()
    ward.session.ask(verdicts())
    honest = ward.session._previous
    content = unpack(honest, 1 << 16, exactly=False)
    envelopes = decode(content, Verdicts).envelopes
    forgeries = [
        (envelopes[1], envelopes[0]),
        (envelopes[0], envelopes[0]),
        (b"", envelopes[1]),
        *((flipped(envelopes[0], place), envelopes[1]) for place in range(len(envelopes[0]))),
    ]
    for forged in forgeries:
        request = next_ask(ward, pack(encode(Verdicts(envelopes=forged))))
        reply = ward.runtimes[NAMES[1]].handle("ask", ward.message("ask", request))
        assert refused(reply) is ForgedSumError
    for name in NAMES:
        request = next_ask(ward, honest)
        reply = ward.runtimes[name].handle("ask", ward.message("ask", request))
        assert read_envelope(reply).topic == "share"


def test_shares_that_the_coordinator_or_another_site_signs_are_refused():
    ward = opened()
    ward.session.ask(verdicts())
    own = roles(ward)
    content = unpack(ward.session._previous, 1 << 16, exactly=False)
    first, second = decode(content, Verdicts).envelopes
    told = decode(read_envelope(first).body, Compared)
    turned = msgspec.structs.replace(told, shares=flipped(told.shares, 0))
    other = next(iter(set(range(N_SITES)) - set(own.holders)))
    for key, sender in (
        (ward.coordinator, NAMES[own.holders[0]]),
        (ward.identities[NAMES[other]], NAMES[own.holders[0]]),
        (ward.identities[NAMES[other]], NAMES[other]),
        (SigningIdentity.generate(), NAMES[own.holders[0]]),
    ):
        forged = seal_envelope(
            key, session=ward.session._plan.session, sender=sender, topic="compared", body=turned
        )
        request = next_ask(ward, pack(encode(Verdicts(envelopes=(forged, second)))))
        for name in NAMES:
            reply = ward.runtimes[name].handle("ask", ward.message("ask", request))
            assert refused(reply) is ForgedSumError


def test_verdicts_of_another_round_or_on_another_sum_are_no_verdicts():
    ward = opened()
    ward.session.ask(verdicts(0.2))
    old = unpack(ward.session._previous, 1 << 16, exactly=False)
    ward.session.ask(verdicts(0.3))
    reply = ward.runtimes[NAMES[0]].handle("ask", ward.message("ask", next_ask(ward, pack(old))))
    assert refused(reply) is ForgedSumError
    content = unpack(ward.session._previous, 1 << 16, exactly=False)
    first, second = decode(content, Verdicts).envelopes
    told = decode(read_envelope(first).body, Compared)
    name = NAMES[roles(ward).holders[0]]
    forged = seal_envelope(
        ward.identities[name], session=ward.session._plan.session, sender=name,
        topic="compared", body=msgspec.structs.replace(told, digest=bytes(32)),
    )  # fmt: skip
    request = next_ask(ward, pack(encode(Verdicts(envelopes=(forged, second)))))
    reply = ward.runtimes[NAMES[0]].handle("ask", ward.message("ask", request))
    assert refused(reply) is ForgedSumError


def test_what_every_site_is_told_says_nothing_of_the_sums_to_who_dealt(monkeypatch):
    """The dealer has both keys: of bare shares, or a digest of D, it could try which sum fits."""
    ward, made = opened(), []
    honest = dealing.deal

    def deal(batch, blinds):
        made.append((batch, honest(batch, blinds)))
        return made[-1][1]

    monkeypatch.setattr(dealing, "deal", deal)
    alike, told = [[], []], [[], []]
    for number in range(60):
        question = verdicts(1e-45 * (1 + number * 1e-6))
        found = ward.session.ask(question)
        (batch, keys), request = made[-1], sent(ward, "compare", Compare)[-1][1]
        blinded = np.frombuffer(request.blinded, dtype="<u8").astype(np.uint64)
        blinded = blinded[head_words(batch.modulus) :]
        sets = accepted(question, N_SITES)
        bare = [
            sets.shares(ComparisonKeys(own, keys.common, batch, holder), blinded)
            for holder, own in enumerate(keys.secrets)
        ]
        assert ((bare[0] ^ bare[1])[:10] == (found > 0)).all()
        content = unpack(ward.session._previous, 1 << 16, exactly=False)
        envelopes = decode(content, Verdicts).envelopes
        for holder, (envelope, own) in enumerate(zip(envelopes, bare, strict=True)):
            body = decode(read_envelope(envelope).body, Compared)
            assert set(body.__struct_fields__) == {"digest", "shares"}
            alike[holder] += (bits(body.shares, 20) == own).tolist()
            told[holder] += bits(body.shares, 20).tolist()
    assert alike[0] == alike[1]  # padded alike
    for own in (*alike, *told):
        assert stats.binomtest(sum(own), len(own)).pvalue > 1e-7


@pytest.mark.parametrize(
    "previous", [b"", b"\x00", pack(b""), pack(bytes(96)), pack(bytes(1 << 16))]
)
def test_what_is_no_verdicts_at_all_is_refused(previous):
    ward = opened()
    ward.session.ask(verdicts())
    for topic, body in (
        ("ask", next_ask(ward, previous)),
        ("finish", Finish(rounds=ward.session._number, previous=previous)),
    ):
        reply = ward.runtimes[NAMES[2]].handle(topic, ward.message(topic, body))
        assert read_envelope(reply).topic == "refusal"


# sites that lie


def test_a_site_that_deals_out_of_turn_or_not_at_all_is_left_out():
    for out_of_turn in (False, True):
        ward = opened(n_sites=5)
        own = roles(ward, step=1)
        liar = own.holders[0] if out_of_turn else own.dealer
        dealt = None
        if out_of_turn:
            probe = opened(n_sites=5)
            probe.session.ask(verdicts(n_sites=5))
            dealt = next(s.dealt for _, s in received(probe, "ask", Share) if s.dealt)
        send_instead(ward, f"hospital-{liar}", dealt=lambda _, dealt=dealt: dealt)
        found = ward.session.ask(verdicts(n_sites=5))
        assert [left.site for left in ward.session.dropouts] == [f"hospital-{liar}"]
        assert found.size


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("change", [lambda own: own + bytes(1 << 20), lambda own: own[:-1]])
def test_a_dealer_whose_sealed_keys_have_another_length_is_left_out(place, change):
    ward = opened(n_sites=5)
    dealer = f"hospital-{roles(ward, step=1).dealer}"

    def sealed(share):
        own = list(share.dealt.sealed)
        own[place] = change(own[place])
        return msgspec.structs.replace(share.dealt, sealed=tuple(own))

    send_instead(ward, dealer, dealt=sealed)
    assert ward.session.ask(verdicts(n_sites=5)).size
    assert [left.site for left in ward.session.dropouts] == [dealer]
    assert max(len(message) for _, _, message in ward.engine.sent) < 1 << 20


@pytest.mark.parametrize("holder", [0, 1])
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"digest": lambda own: bytes(32)}, ForgedSumError),
        ({"shares": lambda own: own.shares + b"\x00"}, ShareError),
        ({"shares": lambda own: own.shares[:-1]}, ShareError),
        ({"shares": lambda own: flipped(own.shares, -1)}, ShareError),
    ],
)
def test_a_holder_whose_shares_are_no_shares_of_the_round_is_named(holder, changes, error):
    ward = opened()
    liar = NAMES[roles(ward, step=1).holders[holder]]
    send_instead(ward, liar, "compare", **changes)
    with pytest.raises(error) as told:
        ward.session.ask(verdicts())
    assert told.value.site == liar


def test_where_keys_are_for_another_sum_all_who_may_have_lied_are_named(monkeypatch):
    ward, honest = opened(), dealing.deal
    own = roles(ward, step=1)

    def deal(batch, blinds):
        return honest(batch, batch.difference(blinds, np.uint64(1000)))

    monkeypatch.setattr(dealing, "deal", deal)
    dealer, first, second = (NAMES[site] for site in (own.dealer, *own.holders))
    with pytest.raises(AggregateRangeError, match=f"'{dealer}' and '{first}' and '{second}'"):
        ward.session.ask(verdicts())


def test_a_dealer_whose_keys_fit_nothing_ends_the_round_by_name():
    ward = opened()
    dealer = NAMES[roles(ward, step=1).dealer]
    send_instead(
        ward,
        dealer,
        dealt=lambda share: msgspec.structs.replace(
            share.dealt, common=flipped(share.dealt.common, 5)
        ),
    )
    with pytest.raises(ComparisonKeyError, match="altered"):
        ward.session.ask(verdicts())


# departures


@pytest.mark.parametrize("protection", ["masking", "bfv"])
@pytest.mark.parametrize("role", ["dealer", "first holder", "second holder", "other"])
@pytest.mark.parametrize("step", ["ask", "unmask", "compare"])
def test_a_site_dies_in_any_step(protection, role, step):
    ward = opened(protection, n_sites=6)
    own = roles(ward, step=1)
    others = [site for site in range(6) if site not in (own.dealer, *own.holders)]
    dead = {
        "dealer": own.dealer, "first holder": own.holders[0], "second holder": own.holders[1],
        "other": others[0],
    }[role]  # fmt: skip
    silence(ward, f"hospital-{dead}", step)
    holder_lost = "holder" in role and step != "ask"
    if holder_lost:
        with pytest.raises(SiteUnreachableError, match="holds the keys of round 1") as told:
            ward.session.ask(verdicts(n_sites=6))
        assert told.value.site == f"hospital-{dead}"
        assert f"'hospital-{own.dealer}' dealt" in told.value.message
        return
    found = ward.session.ask(verdicts(n_sites=6))
    # whoever died before its share came is in no sum
    present = [site for site in range(6) if step != "ask" or site != dead]
    honest = opened(n_sites=6)
    if step == "ask":
        silence(honest, f"hospital-{dead}", "ask")
    cast = honest.session.ask(votes())
    assert (found == (cast < len(present) // 2 + 1)).all()
    again = ward.session.ask(votes(0.2))
    assert again.size
    ward.session.finish()


def test_where_the_site_that_opens_dies_another_opens_but_not_the_dealer():
    for number in range(4):
        ward = opened("bfv", n_sites=6)
        for before in range(number):
            ward.session.ask(votes(0.2 + before * 1e-6))
        own = roles(ward, step=number + 1)
        openers = [site for site in (*range(number + 1, 6), *range(6)) if site != own.dealer]
        if openers[0] in own.holders:
            continue
        silence(ward, f"hospital-{openers[0]}", "open")
        assert ward.session.ask(verdicts(n_sites=6)).size
        asked = [site for operation, site, _ in ward.engine.sent if operation == "open"]
        assert f"hospital-{own.dealer}" not in asked[number:]


def test_after_a_share_is_missing_those_next_in_turn_have_the_roles():
    ward = opened(n_sites=6)
    own = roles(ward, step=1)
    silence(ward, f"hospital-{own.dealer}", "ask")
    ward.session.ask(verdicts(n_sites=6))
    left = tuple(site for site in range(6) if site != own.dealer)
    now = roles(ward, step=1, sites=left)
    assert (now.dealer, now.holders[0]) == own.holders
    dealt = [site for site, share in received(ward, "ask", Share) if share.dealt is not None]
    assert dealt[-1] == f"hospital-{now.dealer}"


def test_two_sites_are_too_few_for_the_roles():
    with pytest.raises(SiteUnreachableError, match="verdicts need 3"):
        Roles.of(bytes(32), 1, (0, 2))
    assert replace(Roles.of(bytes(32), 1, (0, 1, 2)), dealer=0).dealer == 0


def test_a_question_of_verdicts_is_answered_once():
    ward = opened()
    ward.session.ask(verdicts())
    request = ward.asking(
        verdicts(), number=2, step=2, previous=ward.session._previous,
    )  # fmt: skip
    reply = ward.runtimes[NAMES[0]].handle("ask", ward.message("ask", request))
    assert refused(reply) is ReplayError


def test_another_coordinator_s_question_is_refused():
    ward = opened()
    asked = ward.asking(verdicts(0.2))
    ward.asking(verdicts(0.3))
    reply = ward.runtimes[NAMES[0]].handle("ask", ward.message("ask", asked))
    assert refused(reply) is InconsistentQuestionError
