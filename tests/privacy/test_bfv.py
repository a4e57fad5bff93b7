import struct

import numpy as np
import pytest
from cohort import (
    SUM_KEY,
    agreed_keys,
    bfv_site,
    bfv_sites,
    declare,
    only,
    partial_sum,
    plain_sum,
    seeds_of,
    shares_of,
    whole_sum,
)

from cipherdag.errors import (
    AggregateRangeError,
    BoundExceededError,
    CohortError,
    OpeningRefusedError,
    ReplayError,
    ShareError,
)
from cipherdag.privacy import bfvcontext
from cipherdag.privacy.aggregation import Segment
from cipherdag.privacy.bfvcontext import PLAINTEXT_MODULI, BfvContext
from cipherdag.privacy.protection_kind import BFV

tenseal = pytest.importorskip("tenseal")

CIPHERTEXT = 57_344


@pytest.fixture(scope="module")
def default_context():
    return BfvContext.generate()


# ------------------------------------------------------------------ sums


def test_a_hundred_sites_at_the_edge_of_the_plaintext_modulus(default_context):
    half = (PLAINTEXT_MODULI[0] - 1) // 2
    declaration = declare(
        100, Segment(2, float(half // 100), signed=True), Segment(2, 2.0**99, signed=True)
    )
    answer = np.array([half // 100, -(half // 100), 2.0**99, -(2.0**99)], dtype=float)
    sites = bfv_sites(default_context, 100)
    coordinator = BFV.coordinator()
    found = whole_sum(sites, coordinator, [answer] * 100, declaration)
    assert found.tolist() == (100 * answer).tolist()


@pytest.mark.parametrize("length", [0, 1, 4093, 4094, 9000])
def test_long_answers_are_cut_into_ciphertexts_without_a_word(default_context, capfd, length):
    declaration = declare(2, Segment(length, 1.0, 20, signed=True))
    answers = [np.linspace(-1, 1, length), np.linspace(0.5, 1, length)]
    sites = bfv_sites(default_context, 2)
    coordinator = BFV.coordinator()
    found = whole_sum(sites, coordinator, answers, declaration)
    assert found.tobytes() == plain_sum(answers, declaration).tobytes()
    assert capfd.readouterr() == ("", "")


# ------------------------------------------------------------------ strict parsing


@pytest.fixture
def run(default_context):
    """Two sites' shares and seeds: two ciphertexts in one plane and one in another."""
    declaration = declare(2, Segment(5000, 1.0, 30, signed=True), Segment(2, 2.0**60))
    sites = bfv_sites(default_context, 2)
    answers = [np.append(np.linspace(-1, 1, 5000), [0.5, 2.0**60])] * 2
    shares = shares_of(sites, answers, declaration)
    seeds = seeds_of(sites, declaration)
    return declaration, sites, shares, seeds, BFV.coordinator()


def test_shares_cut_short_empty_oversize_or_missing_are_refused(run):
    declaration, sites, shares, seeds, coordinator = run
    beyond = struct.pack("<Q", bfvcontext._PRIMES[0])[:7]
    wrong_shares = [
        b"",
        shares[1][:8],
        shares[1][: len(shares[1]) // 2],
        shares[1][:-1],
        shares[1] + b"\0",
        shares[1][CIPHERTEXT:],
        shares[1] + shares[1][:CIPHERTEXT],
        beyond + shares[1][7:],
        shares[1][:-7] + b"\xff" * 7,
    ]
    for wrong in wrong_shares:
        with pytest.raises(ShareError, match="share 1"):
            coordinator.combine({**shares, 1: wrong}, declaration)
        with pytest.raises(ShareError):
            coordinator.check(wrong, declaration)
        with pytest.raises(ShareError):
            sites[0].open(wrong, seeds, declaration)
    for wrong in ({}, {**shares, 2: shares[0]}, {-1: shares[0]}):
        with pytest.raises(ShareError):
            coordinator.combine(wrong, declaration)
    # what could not be read did not use up the question
    coordinator.check(shares[1], declaration)
    sites[0].open(coordinator.combine(shares, declaration), seeds, declaration)


def test_ciphertexts_that_hold_nothing_of_the_question_are_not_opened(run):
    """Nothing but zeros, planes in another order, and one ciphertext in place of all."""
    declaration, sites, shares, seeds, coordinator = run
    parts = [shares[1][k : k + CIPHERTEXT] for k in range(0, len(shares[1]), CIPHERTEXT)]
    assert len(parts) == 3
    for wrong in (bytes(len(shares[1])), b"".join(reversed(parts)), parts[0] * 3):
        with pytest.raises(OpeningRefusedError):
            sites[0].open(
                coordinator.combine({**shares, 1: wrong}, declaration), seeds, declaration
            )


def test_a_flipped_bit_is_refused_or_without_effect(default_context):
    declaration = declare(2, Segment(40, 1.0, comparison=True), Segment(4, 1.0))
    coordinator = BFV.coordinator()
    rng = np.random.default_rng(11)
    keys = agreed_keys(2)
    answers = [np.zeros(44), np.zeros(44)]
    refused = 0
    for _ in range(60):
        sites = [bfv_site(i, keys[i], default_context) for i in range(2)]
        shares = shares_of(sites, answers, declaration)
        seeds = seeds_of(sites, declaration)
        position = int(rng.integers(8 * len(shares[0])))
        altered = bytearray(shares[0])
        altered[position // 8] ^= 1 << position % 8
        try:
            combined = coordinator.combine({**shares, 0: bytes(altered)}, declaration)
            opened = sites[1].open(combined, seeds, declaration)
        except (ShareError, OpeningRefusedError):
            refused += 1
        else:
            assert not coordinator.open(opened, seeds, declaration).values.any()
    assert refused > 20


# ------------------------------------------------------------------ opening


def test_a_site_opens_one_sum_for_the_question_it_answered_last(run):
    declaration, sites, shares, seeds, coordinator = run
    combined = coordinator.combine(shares, declaration)
    opened = sites[0].open(combined, seeds, declaration)
    assert sites[0].open(combined, seeds, declaration) == opened
    assert coordinator.combine(dict(reversed(shares.items())), declaration) == combined
    doubled = coordinator.combine({0: combined, 1: combined}, declaration)
    for content, own in ((doubled, seeds[0]), (combined, bytes(32))):
        with pytest.raises(OpeningRefusedError, match="another sum"):
            sites[0].open(content, {**seeds, 0: own}, declaration)
    assert sites[0].open(combined, seeds, declaration) == opened
    later = declare(2, Segment(1, 1.0), label="later")
    sites[0].share(np.zeros(1), later)
    with pytest.raises(OpeningRefusedError, match="last"):
        sites[0].open(combined, seeds, declaration)


def test_a_site_opens_nothing_before_it_released_its_seed(default_context):
    declaration = declare(4, Segment(2, 1.0))
    sites = bfv_sites(default_context, 4)
    coordinator = BFV.coordinator()
    combined = coordinator.combine(shares_of(sites, [np.ones(2)] * 4, declaration), declaration)
    seeds = {site: sites[site].unmask(declaration) for site in range(3)}
    with pytest.raises(OpeningRefusedError, match="released no seed"):
        sites[3].open(combined, {**seeds, 3: bytes(32)}, declaration)
    for wrong in ({}, only((0, 1), seeds), seeds, {**seeds, 3: bytes(32), 4: bytes(32)}):
        with pytest.raises(OpeningRefusedError, match="sites that were asked"):
            sites[0].open(combined, wrong, declaration)
    seeds[3] = sites[3].unmask(declaration)
    for wrong in (b"", seeds[1][:-1], seeds[1] + b"\0", seeds[1] + bytes(36)):
        with pytest.raises(ShareError, match="site 1"):
            sites[0].open(combined, {**seeds, 1: wrong}, declaration)
    # none of these used up the question
    opened = sites[0].open(combined, seeds, declaration)
    assert coordinator.open(opened, seeds, declaration).values.tolist() == [4.0, 4.0]


def test_a_sum_over_some_sites_only_or_with_wrong_seeds_is_refused(default_context):
    declaration = declare(4, Segment(2, 1.0))
    coordinator = BFV.coordinator()
    for positions, altered in (((0, 1, 2), {}), ((0, 1), {}), ((0, 1, 2, 3), {1: bytes(32)})):
        sites = bfv_sites(default_context, 4)
        shares = shares_of(sites, [np.ones(2)] * 4, declaration)
        seeds = seeds_of(sites, declaration) | altered
        combined = partial_sum(coordinator, positions, shares, declaration)
        for content in (combined, coordinator.combine(shares, declaration)):
            with pytest.raises(OpeningRefusedError):
                sites[0].open(content, seeds, declaration)
        with pytest.raises(ShareError, match="missing"):
            coordinator.combine(only((0, 1), shares), declaration)


def test_a_question_the_site_did_not_answer_is_not_opened(run):
    declaration, sites, shares, seeds, coordinator = run
    combined = coordinator.combine(shares, declaration)
    looser = declare(2, Segment(5000, 2.0, 10, signed=True), Segment(2, 2.0**60))
    other = declare(2, *declaration.segments, label="another")
    for wrong in (looser, other):
        with pytest.raises(OpeningRefusedError):
            sites[0].open(combined, seeds, wrong)
    fresh = bfv_sites(sites[0]._carrier, 2)[0]
    with pytest.raises(OpeningRefusedError):
        fresh.open(combined, seeds, declaration)


def test_a_share_of_another_key_is_refused_on_opening(default_context, run):
    declaration, sites, shares, seeds, coordinator = run
    stranger = bfv_sites(BfvContext.generate(), 2)[1]
    foreign = stranger.share(np.zeros(5002), declaration)
    with pytest.raises(OpeningRefusedError):
        sites[0].open(
            coordinator.combine({0: shares[0], 1: foreign}, declaration), seeds, declaration
        )


def test_a_site_shares_once_for_a_digest_a_bound_and_its_cohort(default_context):
    site = bfv_sites(default_context, 2)[0]
    declaration = declare(2, Segment(1, 1.0))
    with pytest.raises(BoundExceededError):
        site.share(np.array([1.5]), declaration)
    site.share(np.array([0.5]), declaration)
    with pytest.raises(ReplayError):
        site.share(np.array([0.5]), declaration)
    with pytest.raises(CohortError):
        site.share(np.array([0.5]), declare(3, Segment(1, 1.0), label="three"))
    with pytest.raises(CohortError):
        bfv_site(0, {}, default_context)
    keys = agreed_keys(2)[0][1]
    with pytest.raises(CohortError):
        BFV.site(0, dict.fromkeys(range(1, 102), keys), SUM_KEY, default_context.secret_bytes())


def test_opened_words_are_checked_by_the_coordinator(run):
    declaration, sites, shares, seeds, coordinator = run
    opened = sites[0].open(coordinator.combine(shares, declaration), seeds, declaration)
    assert coordinator.opened_by_site
    for wrong in (b"", opened[:-8], opened[:-1], opened + bytes(8)):
        with pytest.raises(ShareError):
            coordinator.open(wrong, seeds, declaration)
    for wrong in ({}, {2: seeds[1]}):
        with pytest.raises(ShareError):
            coordinator.open(opened, wrong, declaration)
    for position in (0, 8, 24, 5008 * 8):
        altered = opened[:position] + b"\xff" * 8 + opened[position + 8 :]
        with pytest.raises(AggregateRangeError):
            coordinator.open(altered, seeds, declaration)
