"""Sites that leave at any step of a round, and coordinators that only pretend that they did."""

import copy
import pickle
import traceback

import numpy as np
import pytest
from cohort import (
    agreed_keys,
    bfv_sites,
    declare,
    masking_site,
    masking_sites,
    only,
    plain_site,
    plain_sites,
    plain_sum,
    questions,
    seeds_of,
    shares_of,
    streams,
    whole_sum,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.errors import (
    AggregateRangeError,
    CipherdagError,
    KeyAgreementError,
    OpeningRefusedError,
    ShareError,
)
from cipherdag.privacy.aggregation import Segment
from cipherdag.privacy.bfvcontext import BfvContext
from cipherdag.privacy.fixedpoint import plane_lengths
from cipherdag.privacy.keys.pairkeys import seal
from cipherdag.privacy.keys.secretsharing import SHARE_BYTES
from cipherdag.privacy.keystream import apply_masks
from cipherdag.privacy.protection_kind import BFV, MASKING, UNPROTECTED
from cipherdag.privacy.residues import WORD_MODULI


@pytest.fixture(scope="module")
def context():
    pytest.importorskip("tenseal")
    return BfvContext.generate()


@pytest.fixture(scope="module", params=["none", "masking", "bfv"])
def protection(request):
    """A maker of cohorts and the coordinator of each protection."""
    if request.param == "none":
        return plain_sites, UNPROTECTED.coordinator()
    if request.param == "masking":
        return masking_sites, MASKING.coordinator()
    context = request.getfixturevalue("context")
    return lambda n: bfv_sites(context, n), BFV.coordinator()


# ------------------------------------------------------------------ sums over the sites asked


@st.composite
def rounds(draw):
    """A question to some sites of a cohort, and the answers of all."""
    declaration, answers = draw(questions(min_sites=2, max_sites=8))
    asked = sorted(draw(st.sets(st.integers(0, len(answers) - 1), min_size=2)))
    declaration = declare(
        len(asked),
        *declaration.segments,
        participants=tuple(asked),
        threshold=draw(st.integers(1, len(asked) - 1)),
    )
    return declaration, answers


@given(drawn=rounds())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_sums_over_any_part_of_a_cohort_are_the_plain_ones_bit_by_bit(protection, drawn):
    (make_sites, coordinator), (declaration, answers) = protection, drawn
    found = whole_sum(make_sites(len(answers)), coordinator, answers, declaration)
    assert found.tobytes() == plain_sum(answers, declaration).tobytes()


@pytest.mark.parametrize("vanished", [(0,), (3,), (1, 2)])
@pytest.mark.parametrize("threshold", [1, 2])
def test_a_site_that_left_before_unmasking_is_still_summed(protection, vanished, threshold):
    make_sites, coordinator = protection
    sites = make_sites(6)
    asked = (0, 1, 2, 3, 5)
    declaration = declare(5, Segment(3, 9.0), participants=asked, threshold=threshold)
    answers = [np.full(3, float(site)) for site in range(6)]
    shares = shares_of(sites, answers, declaration)
    escrow = {site: sites[site].escrow(declaration) for site in asked}
    seeds = {site: sites[site].unmask(declaration) for site in asked if site not in vanished}
    present = tuple(seeds)
    for left in vanished:
        peers = [site for site in asked if site != left]
        sealed = dict(zip(peers, escrow[left] or [b""] * 4, strict=True))
        pieces = {site: sites[site].recover(left, sealed[site], declaration) for site in present}
        assert pieces == {site: sites[site].recover(left, sealed[site], declaration)
                          for site in present}  # fmt: skip
        seeds[left] = coordinator.rebuild(pieces, declaration)
        assert seeds[left] == sites[left].unmask(declaration)
    combined = coordinator.combine(shares, declaration)
    if coordinator.opened_by_site:
        combined = sites[present[0]].open(combined, seeds, declaration)
    assert coordinator.open(combined, seeds, declaration).values.tolist() == [11.0] * 3


def test_every_other_site_gets_one_piece_and_the_same_on_repetition():
    sites = masking_sites(6)
    declaration = declare(4, Segment(1, 1.0), participants=(1, 2, 4, 5), threshold=2)
    shares_of(sites, [np.zeros(1)] * 6, declaration)
    escrow = sites[2].escrow(declaration)
    assert [len(piece) for piece in escrow] == [SHARE_BYTES + 28] * 3
    assert sites[2].escrow(declaration) == escrow
    assert plain_site().escrow(declaration) == ()


def test_unmask_repeats_itself_and_releases_the_own_seed_alone():
    sites = masking_sites(5)
    declaration = declare(5, Segment(1, 1.0))
    shares_of(sites, [np.zeros(1)] * 5, declaration)
    released = seeds_of(sites, declaration)
    assert released == seeds_of(sites, declaration)
    assert len(set(released.values())) == 5
    assert {len(seed) for seed in released.values()} == {32}
    of_pairs = {key.derive(b"mask") for key in agreed_keys(5)[0].values()}
    assert not of_pairs & set(released.values())
    assert plain_site().unmask(declaration) == b""


# ------------------------------------------------------------------ rounds that miss a site


@pytest.mark.parametrize("protected", ["masking", "bfv"])
def test_seeds_are_released_for_the_last_question_only(protected, request):
    declaration = declare(4, Segment(1, 1.0), participants=(0, 1, 3, 4))
    site = (
        masking_sites(5)[1]
        if protected == "masking"
        else bfv_sites(request.getfixturevalue("context"), 5)[1]
    )
    for step in (site.unmask, site.escrow):
        with pytest.raises(OpeningRefusedError, match="last"):
            step(declaration)
    site.share(np.zeros(1), declaration)
    seed = site.unmask(declaration)
    assert site.unmask(declaration) == seed
    later = declare(4, Segment(1, 1.0), participants=(0, 1, 3, 4), label="later")
    fewer = declare(3, Segment(1, 1.0), participants=(0, 1, 3))
    for other in (later, fewer):
        with pytest.raises(OpeningRefusedError, match="last"):
            site.unmask(other)
    site.share(np.zeros(1), later)
    for step in (site.escrow, site.unmask):
        with pytest.raises(OpeningRefusedError, match="last"):
            step(declaration)
    assert site.unmask(later) != seed


def test_only_pieces_of_other_asked_sites_come_back_after_unmasking():
    sites = masking_sites(6)
    declaration = declare(5, Segment(1, 1.0), participants=(0, 1, 2, 3, 4), threshold=2)
    shares_of(sites, [np.zeros(1)] * 5, declaration)
    escrow = {site: sites[site].escrow(declaration) for site in range(5)}
    with pytest.raises(OpeningRefusedError, match="released no seed"):
        sites[0].recover(1, escrow[1][0], declaration)
    sites[0].unmask(declaration)
    # 5 was not asked, 7 does not exist, 0 is the site itself
    for vanished in (5, 7, 0):
        with pytest.raises(OpeningRefusedError, match="another site that was asked"):
            sites[0].recover(vanished, escrow[min(vanished, 4)][0], declaration)
    for wrong in (
        escrow[1][1],
        escrow[2][0],
        escrow[0][0],
        b"",
        escrow[1][0][:-1],
        bytes([escrow[1][0][0] ^ 1]) + escrow[1][0][1:],
    ):
        with pytest.raises(KeyAgreementError):
            sites[0].recover(1, wrong, declaration)
    assert len(sites[0].recover(1, escrow[1][0], declaration)) == SHARE_BYTES
    # a piece of another question, and a sealed text that is no piece
    later = declare(5, Segment(1, 1.0), participants=(0, 1, 2, 3, 4), label="later", threshold=2)
    shares_of(sites, [np.zeros(1)] * 5, later)
    sites[0].unmask(later)
    with pytest.raises(KeyAgreementError):
        sites[0].recover(1, escrow[1][0], later)
    with pytest.raises(OpeningRefusedError, match="last"):
        sites[0].recover(1, escrow[1][0], declaration)
    key = agreed_keys(6)[0][1]
    bound_to = later.digest + bytes([0, 0, 0, 1, 0, 0, 0, 0])
    for content in (b"", b"\xff" * SHARE_BYTES, bytes(SHARE_BYTES + 1)):
        with pytest.raises(ShareError):
            sites[0].recover(1, seal(key, b"self mask", content, bound_to), later)


# ------------------------------------------------------------------ seeds that do not fit


@pytest.fixture
def masked_round():
    """A round of three of five sites: declaration, combined sum, seeds."""
    declaration = declare(3, Segment(2, 1.0), participants=(0, 2, 3), threshold=2)
    sites = masking_sites(5)
    combined = MASKING.coordinator().combine(
        shares_of(sites, [np.ones(2)] * 5, declaration), declaration
    )
    return declaration, combined, seeds_of(sites, declaration)


def test_malformed_missing_or_foreign_seeds_are_refused(masked_round):
    declaration, combined, seeds = masked_round
    coordinator = MASKING.coordinator()
    assert coordinator.open(combined, seeds, declaration).values.tolist() == [3.0, 3.0]
    for wrong in (
        {},
        only((0, 2), seeds),
        {**seeds, 4: seeds[2]},
        {**seeds, 5: seeds[2]},
        {**seeds, 2: b""},
        {**seeds, 2: seeds[2][:-1]},
        {**seeds, 2: seeds[2] + b"\0"},
        {**seeds, 2: seeds[2] + bytes(36)},
    ):
        with pytest.raises(ShareError):
            coordinator.open(combined, wrong, declaration)
    with pytest.raises(ShareError):
        UNPROTECTED.coordinator().open(combined, seeds, declaration)


def test_wrong_seeds_decode_to_nothing(masked_round):
    declaration, combined, seeds = masked_round
    for position in (0, 13, 31):
        altered = bytearray(seeds[3])
        altered[position] ^= 1
        with pytest.raises(AggregateRangeError):
            MASKING.coordinator().open(combined, {**seeds, 3: bytes(altered)}, declaration)
    with pytest.raises(AggregateRangeError):
        MASKING.coordinator().open(combined, {**seeds, 3: seeds[2]}, declaration)


def test_too_few_or_altered_pieces_do_not_rebuild():
    declaration = declare(5, Segment(1, 1.0), threshold=3)
    sites = masking_sites(5)
    shares_of(sites, [np.zeros(1)] * 5, declaration)
    seeds = seeds_of(sites, declaration)
    escrow = sites[4].escrow(declaration)
    pieces = {site: sites[site].recover(4, escrow[site], declaration) for site in range(4)}
    coordinator = MASKING.coordinator()
    assert coordinator.rebuild(pieces, declaration) == seeds[4]
    assert coordinator.rebuild(only((0, 1, 3), pieces), declaration) == seeds[4]
    for wrong in (
        {},
        only((0, 1), pieces),
        {**pieces, 5: pieces[0]},
        {**pieces, 2: pieces[1]},
        {**pieces, 2: b""},
        {**pieces, 2: pieces[2][:-1] + bytes([pieces[2][-1] ^ 1])},
    ):
        with pytest.raises(ShareError):
            coordinator.rebuild(wrong, declaration)


# ------------------------------------------------------------------ secrets stay inside


def test_seeds_of_a_round_are_hidden_and_forgotten_with_the_next(context):
    declaration = declare(3, Segment(1, 1.0))
    for make in (masking_sites, lambda n: bfv_sites(context, n)):
        site = make(3)[0]
        site.share(np.zeros(1), declaration)
        own = site.unmask(declaration)
        shown = repr(site) + repr(site._masks)
        for attempt in (
            lambda site=site: site.unmask(declare(2, Segment(1, 1.0), participants=(0, 1))),
            lambda site=site: site.recover(1, bytes(94), declaration),
            lambda site=site: site.recover(2, bytes(94), declaration),
        ):
            with pytest.raises(CipherdagError) as refusal:
                attempt()
            shown += "".join(traceback.format_exception(refusal.value)) + repr(refusal.value.args)
            assert refusal.value.__cause__ is None
        for form in (own.hex(), repr(own), str(int.from_bytes(own, "big"))):
            assert form not in shown
        for leak in (pickle.dumps, copy.copy, copy.deepcopy):
            for secret in (site, site._masks):
                with pytest.raises(TypeError):
                    leak(secret)
        site.share(np.zeros(1), declare(3, Segment(1, 1.0), label="next"))
        assert site._masks._self_seed != own
        assert own not in [getattr(site._masks, name) for name in site._masks.__slots__]


def test_the_own_mask_is_fresh_in_every_round_and_run():
    seen = set()
    for label in "abc":
        for _ in range(2):
            site = masking_site(0, agreed_keys(3)[0])
            declaration = declare(3, Segment(1, 1.0), label=label)
            seen.add(site.share(np.zeros(1), declaration))
            seen.add(site.unmask(declaration))
    assert len(seen) == 12


def test_planes_without_words_need_no_stream():
    declaration = declare(2, Segment(4, 2.0**30))
    assert plane_lengths(declaration, WORD_MODULI) == (6, 0)
    words = np.zeros(6, dtype=np.uint64)
    one, other = streams([bytes(32)] * 2)
    apply_masks(words, (6, 0), WORD_MODULI, added=[one], subtracted=[other])
    assert not words.any()
