import json
import tracemalloc

import numpy as np
import plain_masks
import pytest
from cohort import (
    agreed_keys,
    declare,
    is_prime,
    masked_sum,
    masking_site,
    masking_sites,
    pair_contents,
    partial_sum,
    plain_site,
    plain_sum,
    seeds_of,
    shares_of,
    values_of,
    words_of,
)
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
from cipherdag.privacy.bfvcontext import PLAINTEXT_MODULI
from cipherdag.privacy.fixedpoint import plane_lengths
from cipherdag.privacy.keys.pairkeys import PairKey
from cipherdag.privacy.keystream import CHUNK_WORDS, Keystream, apply_masks
from cipherdag.privacy.protection_kind import MASKING, UNPROTECTED
from cipherdag.privacy.residues import (
    MAX_MODULUS,
    WORD_MODULI,
    add,
)
from cipherdag.privacy.roundmasks import RoundMasks, strip_masks

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
    golden = json.loads((plain_masks.GOLDEN / "pair_masks.json").read_text())
    assert golden == plain_masks.golden_masks()
    key = PairKey(bytes.fromhex(golden["pair_key"]))
    counter = key.derive(b"round", bytes.fromhex(golden["digest"]))[:16]
    assert (key.derive(b"mask").hex(), counter.hex()) == (golden["key"], golden["counter"])
    assert set(golden["masks"]) == set(plain_masks.MODULI)
    for planes in golden["masks"].values():
        moduli = tuple(int(plane["modulus"]) for plane in planes)
        for sign in (1, -1):
            stream = [Keystream(key.derive(b"mask")).restarted(counter)]
            signed = {"added": stream[: sign > 0], "subtracted": stream[sign > 0 :]}
            masks = np.zeros(4 * len(moduli), dtype=np.uint64)
            apply_masks(masks, [4] * len(moduli), moduli, **signed)
            assert masks.tolist() == [
                sign * int(word) % modulus
                for plane, modulus in zip(planes, moduli, strict=True)
                for word in plane["words"]
            ]


def test_the_golden_files_are_about_the_moduli_in_use():
    assert plain_masks.MODULI["words"] == list(WORD_MODULI)
    assert plain_masks.MODULI["bfv"] == list(PLAINTEXT_MODULI)


@pytest.mark.parametrize("modulus", WORD_MODULI)
def test_words_are_counted_modulo_primes_below_2_to_56(modulus):
    assert modulus < MAX_MODULUS == 2**56
    assert is_prime(modulus)


# ------------------------------------------------------------------ sums


@pytest.mark.parametrize("moduli", plain_masks.MODULI.values(), ids=plain_masks.MODULI)
def test_a_mask_is_the_own_stream_and_the_pairs_with_their_signs(moduli):
    declaration = declare(5, participants=(0, 2, 3, 4, 6))
    contents = pair_contents(7)
    lengths = [5, 0, 2][: len(moduli)]
    masks = RoundMasks(3, agreed_keys(7)[3])
    words = np.arange(sum(lengths), dtype=np.uint64)
    planes = [plane.tolist() for plane in np.split(words, np.cumsum(lengths)[:-1])]
    masks.mask(words, lengths, tuple(moduli), declaration)
    expected = plain_masks.masked(
        planes,
        3,
        declaration.sites,
        masks.unmask(declaration),
        contents[3],
        declaration.digest,
        moduli,
    )
    assert words.tolist() == [word for plane in expected for word in plane]


def test_a_share_is_that_of_the_plain_program():
    small = Segment(5000, 2.0**28 + 1.0)
    declaration = declare(3, small, Segment(4, 2.0**70), participants=(0, 1, 3))
    answer = np.append(np.arange(5000.0) % 41, [2.0**69, 0.0, 1.0, 2.0**70])
    site = masking_sites(4)[1]
    share = words_of(site.share(answer, declaration)).tolist()
    whole = [int(value) for value in answer]
    first, second = WORD_MODULI
    small, large = whole[:5000], whole[5000:]
    residues = [value % first for value in small + large]
    planes = [
        [0, 0, *residues[:4094], 0, 0, *residues[4094:]],
        [0, 0, *(value % second for value in large)],
    ]
    tagged = plain_masks.tagged(planes, bytes(range(32)), declaration.digest, WORD_MODULI)
    planes = plain_masks.masked(
        tagged,
        1,
        declaration.sites,
        site.unmask(declaration),
        pair_contents(4)[1],
        declaration.digest,
        WORD_MODULI,
    )
    assert share == [word for plane in planes for word in plane]


@pytest.mark.parametrize("n_sites", [2, 3, 4, 5, 8, 13, 21, 34, 55, 89, 100])
@pytest.mark.parametrize("moduli", [WORD_MODULI, PLAINTEXT_MODULI])
def test_masks_of_all_sites_asked_are_stripped_by_their_seeds(n_sites, moduli):
    lengths = [3, 2, 1][: len(moduli)]
    asked = tuple(range(0, n_sites, 1 if n_sites < 4 else 2))
    declaration = declare(len(asked), participants=asked)
    sites = [RoundMasks(index, keys) for index, keys in enumerate(agreed_keys(n_sites))]
    total = np.zeros(sum(lengths), dtype=np.uint64)
    for index in asked:
        masks = np.zeros(sum(lengths), dtype=np.uint64)
        sites[index].mask(masks, lengths, moduli, declaration)
        assert masks.all()
        ends = np.cumsum(lengths)[:-1]
        planes = zip(np.split(total, ends), np.split(masks, ends), moduli, strict=True)
        for part, own, modulus in planes:
            add(part, own, modulus)
    seeds = seeds_of(sites, declaration)
    strip_masks(total, lengths, moduli, seeds=seeds, declaration=declaration)
    assert not total.any()


@pytest.mark.parametrize("length", [0, 1, 3, CHUNK_WORDS - 1, CHUNK_WORDS, CHUNK_WORDS + 1])
def test_answers_of_any_length_cancel(length):
    declaration = declare(
        3, Segment(length, 1.0, 30, signed=True), Segment(length // 9, 2.0**60, 30, signed=True)
    )
    rng = np.random.default_rng(length)
    answers = [rng.uniform(-1, 1, declaration.length) for _ in range(3)]
    found = masked_sum(masking_sites(3), answers, declaration)
    assert found.tobytes() == plain_sum(answers, declaration).tobytes()


def test_a_hundred_sites_at_their_bounds():
    declaration = declare(
        100, Segment(2, 2.0**16, 40, signed=True), Segment(1, 1.0, comparison=True)
    )
    answers = [np.array([2.0**16, -(2.0**16), site == 57]) for site in range(100)]
    found = masked_sum(masking_sites(100), answers, declaration)
    assert found.tolist() == [100 * 2.0**16, -100 * 2.0**16, 1.0]


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
            assert stats.chisquare(counts).pvalue > 1e-8
    values = values_of(words[:first], WORD_MODULI[0])[:length].astype(float)
    assert abs(np.corrcoef(values, answer[:length])[0, 1]) < 0.02


def test_every_bit_of_a_masked_word_is_balanced():
    length = 60_000
    declaration = declare(2, Segment(length, 1.0))
    share = masking_sites(2)[0].share(np.ones(length), declaration)
    words = np.frombuffer(share, dtype=np.uint8).reshape(-1, 8)
    assert not words[:, 7].any()
    bits = np.unpackbits(words[:, :7]).reshape(-1, 56)
    ones = bits.sum(axis=0)
    expected = len(bits) / 2
    assert (np.abs(ones - expected) < 6 * np.sqrt(len(bits)) / 2).all()


def test_another_digest_key_position_or_plane_gives_unrelated_masks():
    def masks(label="one", seed=0, index=0):
        share = masking_sites(3, seed)[index].share(np.zeros(400), declare(3, *wide, label=label))
        return words_of(share)

    wide = (Segment(400, 2.0**70),)
    streams = [masks(), masks(label="two"), masks(seed=1), masks(index=1), masks(index=2)]
    streams += [stream[402:] for stream in streams]
    words = np.concatenate([stream[:402] for stream in streams])
    assert len(np.unique(words)) == words.size
    for i, one in enumerate(streams):
        for other in streams[i + 1 :]:
            correlation = np.corrcoef(one[:402].astype(float), other[:402].astype(float))[0, 1]
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


@pytest.mark.parametrize(
    ("n_sites", "participants", "threshold"),
    [
        (2, (), 1),  # leaves site 3 out
        (5, (), 1),  # names a site without a pair key
        (3, (0, 1, 2), 1),
        (3, (1, 3, 4), 1),
        (3, (-1, 1, 3), 1),
        (3, (0, 1, 3, 2), 1),
        (3, (1, 0, 3), 1),
        (3, (1, 3, 3), 1),
        (4, (0, 1, 3), 1),
        (2, (0, 1, 3), 1),
        (1, (3,), 1),
        (3, (0, 1, 3), -1),
        (3, (0, 1, 3), 3),
    ],
)
def test_a_declaration_for_other_sites_is_refused(n_sites, participants, threshold):
    site = masking_sites(4)[3]
    declaration = declare(n_sites, Segment(1, 1.0), participants=participants, threshold=threshold)
    with pytest.raises(CohortError):
        site.share(np.zeros(1), declaration)
    proper = declare(3, Segment(1, 1.0), participants=(0, 1, 3), threshold=2)
    assert site.share(np.zeros(1), proper)


def test_a_cohort_with_missing_keys_is_refused():
    keys = agreed_keys(3)
    for index, wrong in (
        (0, {}),
        (0, {2: keys[0][2]}),
        (0, {0: keys[0][1], 1: keys[0][2]}),
        (3, keys[0]),
        (-1, keys[0]),
    ):
        with pytest.raises(CohortError):
            masking_site(index, wrong)


@pytest.mark.parametrize("coordinator", [MASKING.coordinator(), UNPROTECTED.coordinator()])
def test_shares_cut_short_missing_or_too_many_are_refused(coordinator):
    declaration = declare(3, Segment(4, 1.0))
    shares = shares_of(masking_sites(3), [np.zeros(4)] * 3, declaration)
    for wrong in ({}, {**shares, 3: shares[0]}, {-1: shares[0]}):
        with pytest.raises(ShareError):
            coordinator.combine(wrong, declaration)
    coordinator.check(shares[1], declaration)
    for cut in (shares[1][:-1], shares[1] + b"\0", b""):
        with pytest.raises(ShareError, match="cut short"):
            coordinator.check(cut, declaration)
        with pytest.raises(ShareError, match="share 1 is cut short"):
            coordinator.combine({**shares, 1: cut}, declaration)
    with pytest.raises(ShareError):
        coordinator.open(b"", dict.fromkeys(range(3), b""), declaration)


def test_words_beyond_a_planes_modulus_are_refused():
    declaration = declare(3, Segment(1, 2.0**80))
    shares = shares_of(masking_sites(3), [np.zeros(1)] * 3, declaration)
    altered = shares[2][:-8] + b"\xff" * 8
    with pytest.raises(ShareError, match="share 2"):
        MASKING.coordinator().combine({**shares, 2: altered}, declaration)
    with pytest.raises(ShareError, match="not reduced"):
        MASKING.coordinator().check(altered, declaration)


@pytest.mark.parametrize(
    "segment", [Segment(1, 2.0**61), Segment(1, 1.0, comparison=True), Segment(0, 1.0)]
)
def test_a_share_of_another_question_site_or_run_is_noticed(segment):
    declaration = declare(3, segment)
    answer = np.zeros(segment.length)
    sites = masking_sites(3)
    shares = shares_of(sites, [answer] * 3, declaration)
    seeds = seeds_of(sites, declaration)
    coordinator = MASKING.coordinator()
    coordinator.open(coordinator.combine(shares, declaration), seeds, declaration)
    foreign = masking_sites(3)[2].share(answer, declare(3, segment, label="another"))
    other_run = masking_sites(3, seed=9)[2].share(answer, declaration)
    for wrong in (
        {**shares, 2: foreign},
        {**shares, 2: other_run},
        {**shares, 2: shares[1]},
        {**shares, 2: bytes(len(foreign))},
    ):
        with pytest.raises(AggregateRangeError):
            coordinator.open(coordinator.combine(wrong, declaration), seeds, declaration)
    without = partial_sum(coordinator, (0, 1), shares, declaration)
    with pytest.raises(AggregateRangeError):
        coordinator.open(without, seeds, declaration)


def test_a_million_values_are_masked_in_bounded_memory():
    length = 1_000_000
    declaration = declare(10, Segment(length, 1.0, 40, signed=True))
    site = masking_sites(10)[0]
    answer = np.random.default_rng(0).uniform(-1, 1, length)
    tracemalloc.start()
    share = site.share(answer, declaration)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # one check word and one tag for every row of 4094 values
    assert len(share) == 8 * (length + 2 * -(-length // 4094))
    assert peak < 10 * len(share)


def test_nothing_is_opened_by_a_site():
    for site in (masking_sites(2)[0], plain_site()):
        with pytest.raises(OpeningRefusedError):
            site.open(bytes(8), {}, declare(2))
    assert not MASKING.coordinator().opened_by_site
    assert not UNPROTECTED.coordinator().opened_by_site
