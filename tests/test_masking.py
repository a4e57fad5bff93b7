import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from cohort import (
    agreed_keys,
    declare,
    masked_sum,
    masking_sites,
    plain_sum,
    questions,
    shares_of,
    words_of,
)
from hypothesis import given, settings
from scipy import stats

from cipherdag.errors import (
    AggregateRangeError,
    BoundExceededError,
    CohortError,
    OpeningRefusedError,
    ReplayError,
    ShareError,
)
from cipherdag.privacy.aggregation import Segment
from cipherdag.privacy.bfv import DEFAULT_PARAMETERS
from cipherdag.privacy.fixedpoint import plane_lengths, word_count
from cipherdag.privacy.keystream import CHUNK_WORDS, Keystream, add_pair_masks
from cipherdag.privacy.masking import MaskingCoordinator, MaskingSite
from cipherdag.privacy.pairkeys import PairKey
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.privacy.unprotected import UnprotectedCoordinator, UnprotectedSite

GOLDEN = Path(__file__).parent / "golden" / "pair_masks.json"


# ------------------------------------------------------------------ the keystream


def test_the_keystream_is_aes_256_in_counter_mode():
    # blocks 0, 1 and 2 under the zero key: The Galois/Counter Mode of Operation (McGrew and
    # Viega), test cases 13 and 14, where they appear as H, tag and ciphertext
    expected = (
        "dc95c078a2408989ad48a21492842087"
        "530f8afbc74536b9a963b4f1c4cb738b"
        "cea7403d4d606b6e074ec5d3baf39d18"
    )
    words = Keystream(bytes(32)).words(6)
    assert words.astype("<u8").tobytes().hex() == expected


def test_the_keystream_does_not_depend_on_how_it_is_cut():
    whole = Keystream(b"k" * 32).words(1000)
    stream = Keystream(b"k" * 32)
    parts = [stream.words(count) for count in (1, 0, 7, 500, 492)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_masks_are_those_of_the_golden_file():
    golden = json.loads(GOLDEN.read_text())
    key = PairKey(bytes.fromhex(golden["pair_key"]))
    for name, moduli in (("words", WORD_MODULI), ("bfv", DEFAULT_PARAMETERS.moduli)):
        for index, sign in ((0, 1), (1, -1)):
            masks = np.zeros(4 * len(moduli), dtype=np.uint64)
            add_pair_masks(
                masks,
                [4] * len(moduli),
                moduli,
                index=index,
                pair_keys={1 - index: key},
                digest=bytes.fromhex(golden["digest"]),
            )
            expected = [
                sign * int(word) % modulus
                for plane, modulus in zip(golden[name], moduli, strict=True)
                for word in plane
            ]
            assert masks.tolist() == expected


# ------------------------------------------------------------------ sums


@given(question=questions())
@settings(max_examples=50, deadline=None, derandomize=True)
def test_masked_sums_are_the_plain_ones_bit_by_bit(question):
    declaration, answers = question
    found = masked_sum(masking_sites(len(answers)), answers, declaration)
    assert found.tobytes() == plain_sum(answers, declaration).tobytes()


@pytest.mark.parametrize("n_sites", [2, 3, 4, 5, 8, 13, 21, 34, 55, 89, 100])
@pytest.mark.parametrize("moduli", [WORD_MODULI, DEFAULT_PARAMETERS.moduli])
def test_masks_of_a_cohort_cancel(n_sites, moduli):
    lengths = [3, 2, 1][: len(moduli)]
    total = [0] * sum(lengths)
    per_word = [m for m, n in zip(moduli, lengths, strict=True) for _ in range(n)]
    for index, keys in enumerate(agreed_keys(n_sites)):
        masks = np.zeros(sum(lengths), dtype=np.uint64)
        add_pair_masks(masks, lengths, moduli, index=index, pair_keys=keys, digest=b"d")
        assert masks.all()
        total = [(t + m) % p for t, m, p in zip(total, masks.tolist(), per_word, strict=True)]
    assert not any(total)


@pytest.mark.parametrize("length", [0, 1, 3, CHUNK_WORDS - 1, CHUNK_WORDS, CHUNK_WORDS + 1])
def test_answers_of_any_length_cancel(length):
    declaration = declare(3, Segment(length, 1.0, 30), Segment(length // 9, 2.0**60, 30))
    rng = np.random.default_rng(length)
    answers = [rng.uniform(-1, 1, declaration.length) for _ in range(3)]
    found = masked_sum(masking_sites(3), answers, declaration)
    assert found.tobytes() == plain_sum(answers, declaration).tobytes()


def test_the_order_of_arrival_does_not_matter():
    declaration = declare(4, Segment(5, 1.0, 40), Segment(2, 2.0**80))
    answers = [np.random.default_rng(site).uniform(-1, 1, 7) for site in range(4)]
    shares = shares_of(masking_sites(4), answers, declaration)
    coordinator = MaskingCoordinator()
    combined = {coordinator.combine(order, declaration) for order in permutations(shares)}
    assert len(combined) == 1


def test_a_hundred_sites_at_their_bounds():
    declaration = declare(100, Segment(2, 2.0**16, 40), Segment(1, 1.0, comparison=True))
    answers = [np.array([2.0**16, -(2.0**16), site == 57]) for site in range(100)]
    found = masked_sum(masking_sites(100), answers, declaration)
    assert found.tolist() == [100 * 2.0**16, -100 * 2.0**16, 1.0]


def test_a_share_has_eight_bytes_a_word():
    declaration = declare(3, Segment(10_000, 1.0, 40))
    share = masking_sites(3)[0].share(np.zeros(10_000), declaration)
    assert len(share) == 8 * word_count(declaration, WORD_MODULI) == 8 * 10_003


# ------------------------------------------------------------------ what a share shows


def test_masked_words_are_uniform_and_unrelated_to_the_answer():
    length = 100_000
    declaration = declare(3, Segment(length, 1.0, 40), Segment(length, 2.0**60, 40))
    answer = np.random.default_rng(1).uniform(0.9, 1.0, 2 * length)
    words = words_of(masking_sites(3)[1].share(answer, declaration))
    first = plane_lengths(declaration, WORD_MODULI)[0]
    for plane, modulus in zip(np.split(words, [first]), WORD_MODULI, strict=True):
        for counts in (
            np.bincount((plane / (modulus / 200)).astype(int), minlength=200),
            np.bincount((plane % 200).astype(int), minlength=200),
        ):
            assert stats.chisquare(counts).pvalue > 1e-6
    values = np.delete(words[:first], slice(None, None, 4096))[:length].astype(float)
    assert abs(np.corrcoef(values, answer[:length])[0, 1]) < 0.02


def test_every_bit_of_a_masked_word_is_balanced():
    length = 60_000
    declaration = declare(2, Segment(length, 1.0))
    share = masking_sites(2)[0].share(np.ones(length), declaration)
    bits = np.unpackbits(np.frombuffer(share, dtype=np.uint8)).reshape(-1, 64)
    ones = bits.sum(axis=0)
    expected = len(bits) / 2
    assert (np.abs(ones - expected) < 6 * np.sqrt(len(bits)) / 2).all()


def test_another_digest_key_position_or_plane_gives_unrelated_masks():
    def masks(label="one", seed=0, index=0):
        share = masking_sites(3, seed)[index].share(np.zeros(400), declare(3, *wide, label=label))
        return words_of(share)

    wide = (Segment(400, 2.0**70),)
    streams = [masks(), masks(label="two"), masks(seed=1), masks(index=1), masks(index=2)]
    streams += [stream[401:] for stream in streams]
    words = np.concatenate([stream[:401] for stream in streams])
    assert len(np.unique(words)) == words.size
    for i, one in enumerate(streams):
        for other in streams[i + 1 :]:
            correlation = np.corrcoef(one[:401].astype(float), other[:401].astype(float))[0, 1]
            assert abs(correlation) < 0.3


# ------------------------------------------------------------------ refusals


def test_a_site_never_masks_twice_for_one_digest():
    site = masking_sites(3)[0]
    declaration = declare(3, Segment(2, 1.0))
    with pytest.raises(BoundExceededError):
        site.share(np.array([0.0, 2.0]), declaration)
    site.share(np.zeros(2), declaration)
    for answer, again in (
        (np.zeros(2), declaration),
        (np.ones(2), declaration),
        (np.zeros(1), declare(3, Segment(1, 1.0))),
    ):
        with pytest.raises(ReplayError):
            site.share(answer, again)
    site.share(np.zeros(2), declare(3, Segment(2, 1.0), label="next"))


def test_a_cohort_of_another_size_or_with_missing_keys_is_refused():
    keys = agreed_keys(3)
    with pytest.raises(CohortError):
        MaskingSite(0, keys[0]).share(np.zeros(1), declare(2, Segment(1, 1.0)))
    for index, wrong in (
        (0, {}),
        (0, {2: keys[0][2]}),
        (0, {0: keys[0][1], 1: keys[0][2]}),
        (3, keys[0]),
        (-1, keys[0]),
    ):
        with pytest.raises(CohortError):
            MaskingSite(index, wrong)


@pytest.mark.parametrize("coordinator", [MaskingCoordinator(), UnprotectedCoordinator()])
def test_shares_cut_short_missing_or_too_many_are_refused(coordinator):
    declaration = declare(3, Segment(4, 1.0))
    shares = shares_of(masking_sites(3), [np.zeros(4)] * 3, declaration)
    for wrong in (
        shares[:2],
        [*shares, shares[0]],
        [],
        [shares[0], shares[1][:-1], shares[2]],
        [shares[0], shares[1] + b"\0", shares[2]],
        [shares[0], b"", shares[2]],
    ):
        with pytest.raises(ShareError) as refusal:
            coordinator.combine(wrong, declaration)
        if len(wrong) == 3:
            assert "share 1 is cut short" in str(refusal.value)
    with pytest.raises(ShareError):
        coordinator.open(b"", declaration)


def test_words_beyond_a_planes_modulus_are_refused():
    declaration = declare(3, Segment(1, 2.0**80))
    shares = shares_of(masking_sites(3), [np.zeros(1)] * 3, declaration)
    with pytest.raises(ShareError, match="share 2"):
        MaskingCoordinator().combine([*shares[:2], shares[2][:-8] + b"\xff" * 8], declaration)


@pytest.mark.parametrize(
    "segment", [Segment(1, 2.0**61), Segment(1, 1.0, comparison=True), Segment(0, 1.0)]
)
def test_a_share_of_another_question_site_or_run_is_noticed(segment):
    declaration = declare(3, segment)
    answer = np.zeros(segment.length)
    shares = shares_of(masking_sites(3), [answer] * 3, declaration)
    coordinator = MaskingCoordinator()
    coordinator.open(coordinator.combine(shares, declaration), declaration)
    foreign = masking_sites(3)[2].share(answer, declare(3, segment, label="another"))
    other_run = masking_sites(3, seed=9)[2].share(answer, declaration)
    for wrong in (
        [shares[0], shares[1], foreign],
        [shares[0], shares[1], other_run],
        [shares[0], shares[1], shares[1]],
        [shares[0], shares[1], bytes(len(foreign))],
    ):
        with pytest.raises(AggregateRangeError):
            coordinator.open(coordinator.combine(wrong, declaration), declaration)


def test_nothing_is_opened_by_a_site():
    for site in (masking_sites(2)[0], UnprotectedSite()):
        with pytest.raises(OpeningRefusedError):
            site.open(bytes(8), declare(2))
        assert site.modulus == 2**64
    assert not MaskingCoordinator().opened_by_site
    assert not UnprotectedCoordinator().opened_by_site
