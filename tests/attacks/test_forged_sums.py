"""Sums that a coordinator makes up, and answers beyond their range: each is refused by name."""

import copy
import pickle
from dataclasses import replace

import msgspec
import numpy as np
import plain_masks
import pytest
from adversary import Ward
from cohort import (
    SUM_KEY,
    bfv_sites,
    declare,
    masking_sites,
    opened_sum,
    plain_sites,
    plain_sum,
    raw_context,
    seeds_of,
    shares_of,
    words_of,
)

from cipherdag.errors import (
    AggregateRangeError,
    BoundExceededError,
    ForgedSumError,
    KeyAgreementError,
    OpeningRefusedError,
    ShareError,
)
from cipherdag.privacy import bfvcontext, fixedpoint, sums
from cipherdag.privacy.aggregation import Segment
from cipherdag.privacy.bfvcontext import BfvContext
from cipherdag.privacy.fixedpoint import decode, plane_lengths, words_to_bytes
from cipherdag.privacy.homomorphic_mac import ROW_WORDS, head_words
from cipherdag.privacy.protection_kind import BFV, MASKING, UNPROTECTED
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.privacy.roundmasks import strip_masks
from cipherdag.sites.session import handshake

VOTES = 40
SEGMENTS = (
    Segment(VOTES, 1.0),
    Segment(5000, 8.0, 30, signed=True),
    Segment(3, 2.0**80),
    Segment(6, 1.0, comparison=True),
)


@pytest.fixture(scope="module")
def context():
    pytest.importorskip("tenseal")
    return BfvContext.generate()


@pytest.fixture(params=["masking", "bfv"])
def protection(request):
    """A maker of cohorts, the coordinator, and the moduli of a protection."""
    if request.param == "masking":
        return masking_sites, MASKING.coordinator(), WORD_MODULI
    context = request.getfixturevalue("context")
    coordinator = BFV.coordinator()
    return lambda n: bfv_sites(context, n), coordinator, context.moduli


def answers_of(n_sites, seed=0):
    rng = np.random.default_rng(seed)
    return [
        np.concatenate(
            [
                rng.integers(0, 2, VOTES),
                rng.uniform(-8, 8, 5000),
                np.floor(rng.uniform(0, 2.0**80, 3)),
                rng.random(6) < 0.3,
            ]
        ).astype(np.float64)
        for _ in range(n_sites)
    ]


def packings(declaration, moduli):
    """How values share words, segment by segment."""
    return fixedpoint._Layout.of(declaration, moduli).packings


def with_word(content, position, change, modulus):
    """Opened words of which one is another."""
    words = words_of(content).copy()
    words[position] = (int(words[position]) + change) % modulus
    return words_to_bytes(words)


# ------------------------------------------------------------------ what is accepted


@pytest.mark.parametrize("participants", [(), (0, 2, 3)])
def test_sites_read_an_honest_aggregate_as_the_coordinator_does(protection, participants):
    make_sites, coordinator, _ = protection
    declaration = declare(len(participants) or 4, *SEGMENTS, participants=participants)
    sites, answers = make_sites(4), answers_of(4)
    aggregate = opened_sum(sites, coordinator, answers, declaration)
    asked = [answers[site] for site in declaration.sites]
    plain = plain_sum(asked, declare(len(asked), *SEGMENTS))
    assert aggregate.values.tobytes() == plain.tobytes()
    for site in declaration.sites:
        for _ in range(2):
            accepted = sites[site].accept(aggregate.content, declaration)
            assert accepted.tobytes() == plain.tobytes()


def test_an_aggregate_shows_no_values_and_a_site_no_sum_key():
    site = masking_sites(2)[0]
    aggregate = opened_sum(
        masking_sites(2), MASKING.coordinator(), [np.ones(1)] * 2, declare(2, Segment(1, 1.0))
    )
    assert repr(aggregate) == "Aggregate()"
    assert repr(site) == "<SiteAggregation, a secret>"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(site)


# ------------------------------------------------------------------ what a coordinator may try


def test_sums_that_the_coordinator_altered_are_refused_by_every_site(protection):
    make_sites, coordinator, moduli = protection
    declaration = declare(3, *SEGMENTS)
    sites, answers = make_sites(3), answers_of(3)
    aggregate = opened_sum(sites, coordinator, answers, declaration)
    content, head = aggregate.content, head_words(moduli[0])
    lengths = plane_lengths(declaration, moduli)
    later = replace(declare(3, *SEGMENTS, label="later"), participants=declaration.participants)
    another = opened_sum(sites, coordinator, answers_of(3, seed=1), later).content
    words, rest = words_of(content), words_of(another)
    plausible = [
        # a vote more or fewer, a mean a little higher, a comparison turned round
        *(with_word(content, head + vote, step, moduli[0]) for vote in (0, 7) for step in (1, -1)),
        with_word(content, ROW_WORDS + head + 100, 1 << 10, moduli[0]),
        with_word(content, lengths[0] - 1, -int(words[lengths[0] - 1]) or 1, moduli[0]),
    ]
    for forged in plausible:
        try:
            decode(forged, declaration, moduli)
        except AggregateRangeError:
            continue  # three votes of three cannot be four
        assert decode(forged, declaration, moduli).values.shape == aggregate.values.shape
    noise = np.random.default_rng(0).integers(0, min(moduli), words.size, dtype=np.uint64)
    forgeries = [
        *plausible,
        another,
        words_to_bytes(np.append(words[: lengths[0]], rest[lengths[0] :])),
        words_to_bytes(np.append(words[:ROW_WORDS], rest[ROW_WORDS:])),
        with_word(content, 0, 1, moduli[0]),
        with_word(content, 1, 1, moduli[0]),
        with_word(content, head, int(moduli[0]), 1 << 64),
        words_to_bytes(2 * words % np.repeat(np.array(moduli, np.uint64), lengths)),
        words_to_bytes(noise),
        bytes(len(content)),
        b"\xff" * len(content),
    ]
    for forged in forgeries:
        assert forged != content
        for site in sites:
            with pytest.raises(ForgedSumError):
                site.accept(forged, declaration)
    for cut in (b"", content[:-1], content[:-8], content + bytes(8)):
        with pytest.raises(ShareError):
            sites[0].accept(cut, declaration)
    # nothing of this kept a site from the right one
    assert sites[0].accept(content, declaration).tobytes() == aggregate.values.tobytes()


def test_an_honest_sum_fits_no_other_question_and_no_other_sites(protection):
    make_sites, coordinator, _ = protection
    declaration = declare(4, *SEGMENTS)
    sites = make_sites(4)
    content = opened_sum(sites, coordinator, answers_of(4), declaration).content
    for wrong in (
        declare(4, *SEGMENTS, label="another"),
        replace(declaration, cohort_size=3, participants=(0, 1, 2)),
    ):
        # sums over fewer sites may be shorter
        with pytest.raises((ForgedSumError, ShareError)):
            sites[0].accept(content, wrong)


def test_masking_an_addition_to_a_sum_is_refused_by_every_site():
    declaration = declare(3, Segment(VOTES, 1.0))
    sites, coordinator = masking_sites(3), MASKING.coordinator()
    answers = [np.ones(VOTES), np.zeros(VOTES), np.zeros(VOTES)]
    combined = coordinator.combine(shares_of(sites, answers, declaration), declaration)
    seeds = seeds_of(sites, declaration)
    steered = coordinator.open(with_word(combined, 2, 1, WORD_MODULI[0]), seeds, declaration)
    # the coordinator's own side sees nothing wrong: two of three instead of one of three
    assert steered.values.tolist() == [2.0] + [1.0] * (VOTES - 1)
    for site in sites:
        with pytest.raises(ForgedSumError, match="not the sum of the sites' answers"):
            site.accept(steered.content, declaration)


def test_bfv_an_addition_to_a_ciphertext_is_refused_by_every_site(context):
    declaration = declare(3, Segment(VOTES, 1.0))
    coordinator = BFV.coordinator()
    sites = bfv_sites(context, 3)
    answers = [np.ones(VOTES), np.zeros(VOTES), np.zeros(VOTES)]
    combined = coordinator.combine(shares_of(sites, answers, declaration), declaration)
    seeds = seeds_of(sites, declaration)
    # adding a plaintext needs no key
    lengths = plane_lengths(declaration, context.moduli)
    parameters = raw_context(context.moduli[0], (54, 55))
    (ciphertext,) = bfvcontext._coefficients(combined, bfvcontext._CIPHERTEXT, 1)
    added = [0] * lengths[0]
    added[head_words(context.moduli[0])] = 1
    (rigged,) = (bfvcontext._vector(parameters, ciphertext, lengths[0]) + added).ciphertext()
    rigged = bfvcontext._packed(rigged, bfvcontext._CIPHERTEXT)
    opened = sites[0].open(rigged, seeds, declaration)
    steered = coordinator.open(opened, seeds, declaration)
    assert steered.values.tolist() == [2.0] + [1.0] * (VOTES - 1)
    for site in sites:
        with pytest.raises(ForgedSumError):
            site.accept(steered.content, declaration)


# ------------------------------------------------------------------ what remains


def test_a_site_that_sides_with_the_coordinator_can_forge_a_sum(protection):
    """What remains: every site has the sum key, also the one that opens the sum under BFV.

    Such a coordinator steers an honest site's questions; what it opens by them are sums still.
    """
    make_sites, coordinator, moduli = protection
    declaration = declare(3, *SEGMENTS)
    sites, answers = make_sites(3), answers_of(3)
    aggregate = opened_sum(sites, coordinator, answers, declaration)
    lengths = plane_lengths(declaration, moduli)
    words = words_of(aggregate.content).copy()
    head = head_words(moduli[0])
    (shared, *_) = packings(declaration, moduli)
    vote = int(np.argmin(aggregate.values[: shared.words]))
    words[head + vote] += np.uint64(1)
    # the colluder's tags are those of one site; two more k_0 make them those of three
    of_one, of_none = words.copy(), np.zeros_like(words)
    for own in (of_one, of_none):
        SUM_KEY.tag(own, lengths, moduli, declaration.digest)
    per_word = np.repeat(np.array(moduli, dtype=object), lengths)
    places = np.concatenate([np.arange(n) % ROW_WORDS for n in lengths])
    heads = np.repeat([head_words(modulus) for modulus in moduli], lengths)
    tags = (places > 0) & (places < heads)
    words[tags] = ((of_one.astype(object) + 2 * of_none.astype(object)) % per_word)[tags]
    forged = words_to_bytes(words)
    assert sites[0].accept(forged, declaration)[vote] == aggregate.values[vote] + 1


def test_a_false_tag_stops_the_run_and_nothing_worse():
    """No site can tell who altered a sum, a colleague or the coordinator; so says the remedy."""
    declaration = declare(3, Segment(VOTES, 1.0))
    sites, coordinator = masking_sites(3), MASKING.coordinator()
    shares = shares_of(sites, [np.ones(VOTES)] * 3, declaration)
    shares[1] = with_word(shares[1], 1, 5, WORD_MODULI[0])
    combined = coordinator.combine(shares, declaration)
    aggregate = coordinator.open(combined, seeds_of(sites, declaration), declaration)
    assert aggregate.values.tolist() == [3.0] * VOTES
    with pytest.raises(ForgedSumError) as refusal:
        sites[0].accept(aggregate.content, declaration)
    assert "another site" in refusal.value.remedy


def test_without_protection_tags_promise_nothing():
    """Who reads single shares can weigh them: weights need only add up to the number of sites."""
    declaration = declare(3, Segment(2, 1.0))
    sites, coordinator = plain_sites(3), UNPROTECTED.coordinator()
    answers = [np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0.0, 0.0])]
    shares = shares_of(sites, answers, declaration)
    doubled = coordinator.combine({**shares, 1: shares[0]}, declaration)
    assert sites[0].accept(doubled, declaration).tolist() == [2.0, 0.0]


@pytest.mark.parametrize("content", [b"", bytes(31), bytes(33)])
def test_a_sum_key_of_another_length_is_refused_by_every_other_site(content, monkeypatch):
    honest = handshake.encode

    def lying(body):
        if hasattr(body, "sum_key"):
            body = msgspec.structs.replace(body, sum_key=content)
        return honest(body)

    ward = Ward()
    monkeypatch.setattr(handshake, "encode", lying)
    with pytest.raises(KeyAgreementError, match="sum key"):
        ward.session.open()


# ------------------------------------------------------------------ answers beyond their range


def lies(answer, declaration, moduli, **_):
    """Words of whole numbers, whatever their question allows, as honest ones would lie in them."""
    words, start = [], 0
    for own in packings(declaration, moduli):
        whole = answer[start : start + own.length].astype(int).tolist()
        start += own.length
        if own.digits > 1:
            whole = plain_masks.packed(whole, own.lowest, own.base, own.digits)
        words += [word % moduli[0] for word in whole]
    return np.array([0] * head_words(moduli[0]) + words, dtype=np.uint64)


def lying_cohort(make_sites, answers, declaration, liars):
    """Shares, and seeds, of a cohort in which some encode what their question does not allow."""
    sites, shares = make_sites(len(answers)), {}
    for site in declaration.sites:
        with pytest.MonkeyPatch.context() as patch:
            if site in liars:
                patch.setattr(sums, "encode", lies)
            shares[site] = sites[site].share(answers[site], declaration)
    return sites, shares, seeds_of(sites, declaration)


def test_an_honest_site_answers_nothing_below_its_range():
    for site in (masking_sites(3)[0], plain_sites(3)[0]):
        with pytest.raises(BoundExceededError, match="segment 0 .* outside the declared bound"):
            site.share(np.full(VOTES, -1.0), declare(3, Segment(VOTES, 1.0)))


@pytest.mark.parametrize("vote", [-10.0, -3.0, 4.0, 10.0])
def test_masking_votes_of_one_site_that_are_none_are_refused_in_words(vote):
    """One site adds -10 to every vote: before, a graph without edges and no alarm."""
    declaration = declare(3, Segment(3, 7.0), Segment(VOTES, 1.0))
    honest = np.append(np.ones(3), np.ones(VOTES))
    liar = np.append(np.ones(3), np.full(VOTES, vote))
    sites, shares, seeds = lying_cohort(
        masking_sites, [honest, liar, honest], declaration, liars=(1,)
    )
    coordinator = MASKING.coordinator()
    combined = coordinator.combine(shares, declaration)
    with pytest.raises(AggregateRangeError, match="segment 1 of the sum .* cannot produce"):
        coordinator.open(combined, seeds, declaration)
    # a coordinator that goes on all the same does not get past the sites: tags are in order
    words = words_of(combined).copy()
    lengths = plane_lengths(declaration, WORD_MODULI)
    strip_masks(words, lengths, WORD_MODULI, seeds=seeds, declaration=declaration)
    for site in sites:
        with pytest.raises(AggregateRangeError, match="segment 1 of the sum .* cannot produce"):
            site.accept(words_to_bytes(words), declaration)


def test_bfv_no_site_opens_a_sum_below_its_range(context):
    declaration = declare(3, Segment(VOTES, 1.0))
    answers = [np.ones(VOTES), np.full(VOTES, -10.0), np.ones(VOTES)]
    sites, shares, seeds = lying_cohort(
        lambda n: bfv_sites(context, n), answers, declaration, liars=(1,)
    )
    combined = BFV.coordinator().combine(shares, declaration)
    with pytest.raises(OpeningRefusedError, match="not the sum"):
        sites[0].open(combined, seeds, declaration)


def test_a_lie_within_the_range_of_the_sum_is_not_noticed():
    """What remains: a site may lie within what all together can say, as its answer is hidden."""
    declaration = declare(3, Segment(VOTES, 1.0))
    answers = [np.ones(VOTES), np.full(VOTES, -2.0), np.ones(VOTES)]
    _, shares, seeds = lying_cohort(masking_sites, answers, declaration, liars=(1,))
    coordinator = MASKING.coordinator()
    combined = coordinator.combine(shares, declaration)
    assert not coordinator.open(combined, seeds, declaration).values.any()
