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
    masking_sites,
    only,
    plain_sum,
    questions,
    seeds_of,
    shares_of,
    whole_sum,
    words_of,
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
from cipherdag.privacy.bfv import BfvContext, BfvCoordinator
from cipherdag.privacy.fixedpoint import plane_lengths
from cipherdag.privacy.keystream import apply_masks
from cipherdag.privacy.masking import MaskingCoordinator, MaskingSite
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.privacy.sealing import seal
from cipherdag.privacy.secretsharing import SHARE_BYTES
from cipherdag.privacy.unprotected import UnprotectedCoordinator, UnprotectedSite

LENGTH = 20_000


@pytest.fixture(scope="module")
def context():
    pytest.importorskip("tenseal")
    return BfvContext.generate()


@pytest.fixture(params=["none", "masking", "bfv"])
def protection(request):
    """A maker of cohorts and the coordinator of each protection."""
    if request.param == "none":
        return lambda n: [UnprotectedSite() for _ in range(n)], UnprotectedCoordinator()
    if request.param == "masking":
        return masking_sites, MaskingCoordinator()
    context = request.getfixturevalue("context")
    return lambda n: bfv_sites(context, n), BfvCoordinator(context.public_bytes())


def uniform_answers(n_sites):
    return [np.random.default_rng(site).uniform(-1, 1, LENGTH) for site in range(n_sites)]


def correlation(words, answer):
    """Of masked words, read as signed sums, with an answer."""
    values = np.delete(words, slice(None, None, 4096)).astype(np.uint64).view(np.int64)
    return abs(np.corrcoef(values.astype(float), answer)[0, 1])


def stripped(share, added, subtracted):
    words = words_of(share).copy()
    apply_masks(words, [words.size, 0], WORD_MODULI, added=added, subtracted=subtracted)
    return words


def entries(seeds):
    """The b of a site, and its pair seeds by dropped site, from what it released."""
    pairs = {}
    for start in range(32, len(seeds), 36):
        pairs[int.from_bytes(seeds[start : start + 4], "big")] = seeds[start + 4 : start + 36]
    return seeds[:32], pairs


# ------------------------------------------------------------------ sums over survivors


@st.composite
def rounds(draw):
    """A question to some sites of a cohort, all answers, and who of them survives."""
    declaration, answers = draw(questions(min_sites=2, max_sites=8))
    n_sites = len(answers)
    asked = sorted(draw(st.sets(st.integers(0, n_sites - 1), min_size=2)))
    survivors = sorted(draw(st.sets(st.sampled_from(asked), min_size=2)))
    declaration = declare(
        len(asked),
        *declaration.segments,
        participants=tuple(asked),
        threshold=draw(st.integers(1, len(asked) - 1)),
    )
    return declaration, answers, survivors


@given(drawn=rounds())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_sums_over_any_survivors_are_the_plain_ones_bit_by_bit(drawn):
    declaration, answers, survivors = drawn
    sites = masking_sites(len(answers))
    found = whole_sum(sites, MaskingCoordinator(), answers, declaration, survivors)
    assert found.tobytes() == plain_sum(answers, declaration, survivors).tobytes()


@given(drawn=rounds())
@settings(max_examples=12, deadline=None, derandomize=True)
def test_all_protections_agree_on_the_sum_over_survivors(context, drawn):
    declaration, answers, survivors = drawn
    sites = bfv_sites(context, len(answers))
    coordinator = BfvCoordinator(context.public_bytes())
    found = whole_sum(sites, coordinator, answers, declaration, survivors)
    assert found.tobytes() == plain_sum(answers, declaration, survivors).tobytes()


@pytest.mark.parametrize("dropped", [(0,), (5,), (2, 3), (0, 1, 4, 5)])
def test_the_sum_is_that_of_the_survivors_answers(protection, dropped):
    make_sites, coordinator = protection
    survivors = [site for site in range(6) if site not in dropped]
    declaration = declare(6, Segment(3, 8.0), Segment(2, 2.0**90), Segment(1, 1.0, comparison=True))
    answers = [np.array([site, -site, 1.0, site, 5.0, site == 5]) for site in range(6)]
    found = whole_sum(make_sites(6), coordinator, answers, declaration, survivors)
    expected = np.sum([answers[site] for site in survivors], axis=0)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("vanished", [(0,), (3,), (1, 2)])
@pytest.mark.parametrize("threshold", [1, 2])
def test_a_survivor_that_left_before_unmasking_is_still_summed(protection, vanished, threshold):
    make_sites, coordinator = protection
    sites = make_sites(6)
    asked = (0, 1, 2, 3, 5)
    declaration = declare(5, Segment(3, 9.0), participants=asked, threshold=threshold)
    answers = [np.full(3, float(site)) for site in range(6)]
    shares = shares_of(sites, answers, declaration)
    escrow = {site: sites[site].escrow(declaration) for site in asked}
    seeds = {site: sites[site].unmask(asked, declaration) for site in asked if site not in vanished}
    present = tuple(seeds)
    for left in vanished:
        peers = [site for site in asked if site != left]
        sealed = dict(zip(peers, escrow[left] or [b""] * 4, strict=True))
        pieces = {site: sites[site].recover(left, sealed[site], declaration) for site in present}
        assert pieces == {site: sites[site].recover(left, sealed[site], declaration)
                          for site in present}  # fmt: skip
        seeds[left] = coordinator.rebuild(pieces, declaration)
        assert seeds[left] == sites[left].unmask(asked, declaration)
    combined = coordinator.combine(shares, declaration)
    if coordinator.opened_by_site:
        combined = sites[present[0]].open(combined, seeds, declaration)
    assert coordinator.open(combined, seeds, declaration).values.tolist() == [11.0] * 3


def test_one_piece_for_every_other_site_that_is_the_same_when_asked_again():
    sites = masking_sites(6)
    declaration = declare(4, Segment(1, 1.0), participants=(1, 2, 4, 5), threshold=2)
    shares_of(sites, [np.zeros(1)] * 6, declaration)
    escrow = sites[2].escrow(declaration)
    assert [len(piece) for piece in escrow] == [SHARE_BYTES + 28] * 3
    assert sites[2].escrow(declaration) == escrow
    assert UnprotectedSite().escrow(declaration) == ()


def test_unmask_repeats_itself_and_releases_what_the_format_says():
    sites = masking_sites(5)
    declaration = declare(5, Segment(1, 1.0))
    shares_of(sites, [np.zeros(1)] * 5, declaration)
    released = {site: sites[site].unmask((0, 2, 4), declaration) for site in (0, 2, 4)}
    assert released == {site: sites[site].unmask([0, 2, 4], declaration) for site in (0, 2, 4)}
    keys = agreed_keys(5)
    own = set()
    for site, seeds in released.items():
        b, pairs = entries(seeds)
        own.add(b)
        assert pairs == {
            dropped: keys[site][dropped].derive(b"round", declaration.digest) for dropped in (1, 3)
        }
    assert len(own) == 3
    assert UnprotectedSite().unmask((0, 2, 4), declaration) == b""


# ------------------------------------------------------------------ what a dropped site keeps


def test_the_late_share_of_a_dropped_site_stays_hidden():
    declaration = declare(5, Segment(LENGTH, 1.0, 40), threshold=2)
    answers = uniform_answers(5)
    sites = masking_sites(5)
    shares = shares_of(sites, answers, declaration)
    survivors = (0, 1, 2, 4)
    seeds = seeds_of(sites, survivors, declaration)
    # all pair seeds of site 3 are known now; only its own mask still covers its answer
    pairs = {site: entries(seeds[site])[1][3] for site in survivors}
    words = stripped(shares[3], [pairs[s] for s in (0, 1, 2)], [pairs[4]])
    assert correlation(words, answers[3]) < 0.03
    own, _ = entries(sites[3].unmask(range(5), declaration))
    apply_masks(words, [words.size, 0], WORD_MODULI, added=[], subtracted=[own])
    assert correlation(words, answers[3]) > 0.99
    # and nobody else helps to get it: not even all others together
    for site in survivors:
        piece = sites[3].escrow(declaration)[site - (site > 3)]
        with pytest.raises(OpeningRefusedError):
            sites[site].recover(3, piece, declaration)


def test_a_split_view_would_open_an_answer_and_no_site_serves_both_views():
    declaration = declare(5, Segment(LENGTH, 1.0, 40))
    answers = uniform_answers(5)
    sites = masking_sites(5)
    shares = shares_of(sites, answers, declaration)
    everyone, without = range(5), (0, 1, 3, 4)
    # some are told that site 2 dropped, and site 2 that everyone is there: this is why a site asks
    # for every other survivor's word on one set before it unmasks
    pairs = {site: entries(sites[site].unmask(without, declaration))[1][2] for site in without}
    own, _ = entries(sites[2].unmask(everyone, declaration))
    words = stripped(shares[2], [pairs[0], pairs[1]], [own, pairs[3], pairs[4]])
    error = np.delete(words, slice(None, None, 4096)).view(np.int64) / 2.0**40 - answers[2]
    assert np.abs(error).max() < 1e-11
    # the word that site 2 needs is of sites that stand by the view with site 2
    honest = masking_sites(5)
    shares_of(honest, answers, declaration)
    seeds_of(honest, everyone, declaration)
    for site in without:
        with pytest.raises(OpeningRefusedError, match="other survivors"):
            honest[site].unmask(without, declaration)


@pytest.mark.parametrize("protected", ["masking", "bfv"])
def test_seeds_are_released_for_one_set_of_survivors_with_oneself_and_another(protected, request):
    declaration = declare(4, Segment(1, 1.0), participants=(0, 1, 3, 4))
    site = (
        masking_sites(5)[1]
        if protected == "masking"
        else bfv_sites(request.getfixturevalue("context"), 5)[1]
    )
    with pytest.raises(OpeningRefusedError, match="last"):
        site.unmask((0, 1), declaration)
    with pytest.raises(OpeningRefusedError, match="last"):
        site.escrow(declaration)
    site.share(np.zeros(1), declaration)
    for wrong in ((), (1,), (0, 3), (0, 1, 2), (1, 0), (0, 1, 1), (0, 1, 3, 4, 5), (-1, 1)):
        with pytest.raises(OpeningRefusedError, match="survivors are not"):
            site.unmask(wrong, declaration)
    seeds = site.unmask((0, 1, 3), declaration)
    for other in ((0, 1), (0, 1, 3, 4), (1, 3)):
        with pytest.raises(OpeningRefusedError, match="other survivors"):
            site.unmask(other, declaration)
    assert site.unmask((0, 1, 3), declaration) == seeds
    later = declare(4, Segment(1, 1.0), participants=(0, 1, 3, 4), label="later")
    with pytest.raises(OpeningRefusedError, match="last"):
        site.unmask((0, 1, 3), later)
    site.share(np.zeros(1), later)
    for step in (site.escrow, lambda asked: site.unmask((0, 1, 3), asked)):
        with pytest.raises(OpeningRefusedError, match="last"):
            step(declaration)
    assert site.unmask((0, 1), later)[:32] != seeds[:32]


def test_pieces_are_recovered_only_of_survivors_and_only_after_unmasking():
    sites = masking_sites(5)
    declaration = declare(5, Segment(1, 1.0), threshold=2)
    shares_of(sites, [np.zeros(1)] * 5, declaration)
    escrow = {site: sites[site].escrow(declaration) for site in range(5)}
    with pytest.raises(OpeningRefusedError, match="released no seeds"):
        sites[0].recover(1, escrow[1][0], declaration)
    sites[0].unmask((0, 1, 2), declaration)
    # 3 and 4 dropped, 7 does not exist, 0 is the site itself
    for vanished in (3, 4, 7, 0):
        with pytest.raises(OpeningRefusedError, match="another survivor"):
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
    later = declare(5, Segment(1, 1.0), label="later", threshold=2)
    shares_of(sites, [np.zeros(1)] * 5, later)
    sites[0].unmask((0, 1), later)
    with pytest.raises(KeyAgreementError):
        sites[0].recover(1, escrow[1][0], later)
    with pytest.raises(OpeningRefusedError, match="last"):
        sites[0].recover(1, escrow[1][0], declaration)
    key = agreed_keys(5)[0][1]
    bound_to = later.digest + bytes([0, 0, 0, 1, 0, 0, 0, 0])
    for content in (b"", b"\xff" * SHARE_BYTES, bytes(SHARE_BYTES + 1)):
        with pytest.raises(ShareError):
            sites[0].recover(1, seal(key, b"self mask", content, bound_to), later)


# ------------------------------------------------------------------ seeds that do not fit


@pytest.fixture
def masked_round():
    """A round of five sites that two of them left: declaration, combined sum, seeds."""
    declaration = declare(5, Segment(2, 1.0), threshold=2)
    sites = masking_sites(5)
    shares = shares_of(sites, [np.ones(2)] * 5, declaration)
    combined = MaskingCoordinator().combine(only((0, 2, 3), shares), declaration)
    return declaration, combined, seeds_of(sites, (0, 2, 3), declaration), sites


def test_malformed_missing_or_foreign_seeds_are_refused(masked_round):
    declaration, combined, seeds, _ = masked_round
    coordinator = MaskingCoordinator()
    assert coordinator.open(combined, seeds, declaration).values.tolist() == [3.0, 3.0]
    swapped = seeds[2][:32] + seeds[2][68:] + seeds[2][32:68]
    for wrong in (
        {},
        only((0, 2), seeds),
        {**seeds, 4: seeds[2]},
        {**seeds, 5: seeds[2]},
        {**seeds, 2: b""},
        {**seeds, 2: seeds[2][:32]},
        {**seeds, 2: seeds[2][:-1]},
        {**seeds, 2: seeds[2] + b"\0"},
        {**seeds, 2: swapped},
    ):
        with pytest.raises(ShareError):
            coordinator.open(combined, wrong, declaration)
    with pytest.raises(ShareError):
        UnprotectedCoordinator().open(combined, seeds, declaration)


def test_wrong_seeds_decode_to_nothing(masked_round):
    declaration, combined, seeds, _ = masked_round
    for position in (0, 31, 36, 67, 72, 103):
        altered = bytearray(seeds[3])
        altered[position] ^= 1
        with pytest.raises(AggregateRangeError):
            MaskingCoordinator().open(combined, {**seeds, 3: bytes(altered)}, declaration)
    with pytest.raises(AggregateRangeError):
        MaskingCoordinator().open(combined, {**seeds, 3: seeds[2]}, declaration)


def test_a_vanished_site_cannot_be_rebuilt_once_another_one_dropped(masked_round):
    declaration, combined, seeds, sites = masked_round
    escrow = sites[3].escrow(declaration)
    pieces = {site: sites[site].recover(3, escrow[site], declaration) for site in (0, 2)}
    rebuilt = MaskingCoordinator().rebuild(pieces, declaration)
    assert rebuilt == seeds[3][:32]
    with pytest.raises(ShareError, match="incomplete"):
        MaskingCoordinator().open(combined, {**seeds, 3: rebuilt}, declaration)


def test_too_few_or_altered_pieces_do_not_rebuild():
    declaration = declare(5, Segment(1, 1.0), threshold=3)
    sites = masking_sites(5)
    shares_of(sites, [np.zeros(1)] * 5, declaration)
    seeds = seeds_of(sites, range(5), declaration)
    escrow = sites[4].escrow(declaration)
    pieces = {site: sites[site].recover(4, escrow[site], declaration) for site in range(4)}
    coordinator = MaskingCoordinator()
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


def test_seeds_of_a_round_are_not_shown_and_are_forgotten_with_the_next(context):
    declaration = declare(3, Segment(1, 1.0))
    for make in (masking_sites, lambda n: bfv_sites(context, n)):
        site = make(3)[0]
        site.share(np.zeros(1), declaration)
        own, _ = entries(site.unmask((0, 1), declaration))
        shown = repr(site) + repr(site._masks)
        for attempt in (
            lambda site=site: site.unmask((0, 2), declaration),
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
            site = MaskingSite(0, agreed_keys(3)[0])
            declaration = declare(3, Segment(1, 1.0), label=label)
            seen.add(site.share(np.zeros(1), declaration))
            seen.add(site.unmask(range(3), declaration))
    assert len(seen) == 12


def test_planes_without_words_need_no_stream():
    declaration = declare(2, Segment(4, 1.0))
    assert plane_lengths(declaration, WORD_MODULI) == (5, 0)
    words = np.zeros(5, dtype=np.uint64)
    apply_masks(words, (5, 0), WORD_MODULI, added=[bytes(32)], subtracted=[bytes(32)])
    assert not words.any()
