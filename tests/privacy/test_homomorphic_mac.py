"""Tags of sums: what they are, that they add up, and that no forgery gets past them."""

import json
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import plain_masks
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.errors import ForgedSumError, KeyAgreementError
from cipherdag.privacy.bfvcontext import PLAINTEXT_MODULI
from cipherdag.privacy.homomorphic_mac import ROW_WORDS, MacKey, head_words, tags_per_row
from cipherdag.privacy.residues import WORD_MODULI

BFV, HIGH = PLAINTEXT_MODULI, tuple(plain_masks.MODULI["bfv-high"])
IN_USE = {"words": WORD_MODULI, "bfv": BFV, "bfv-high": HIGH}
ODD = {"rejecting": tuple(plain_masks.MODULI["rejecting"]), "tiny": (5, 2, 2**31 - 1)}
KEY = bytes(range(7, 39))
DIGEST = bytes(range(32))


def lengths_of(values, moduli):
    """Words of every plane with so many values; the first one has a row in any case."""
    lengths = []
    for plane, (count, modulus) in enumerate(zip(values, moduli, strict=True)):
        head = head_words(modulus)
        rows = max(-(-count // (ROW_WORDS - head)), plane == 0)
        lengths.append(count + rows * head)
    return lengths


def planes_of(words, lengths):
    """Views of the planes."""
    return np.split(words, np.cumsum(lengths)[:-1])


def drawn(rng, lengths, moduli):
    """Uniform words with empty heads, a tenth of them the largest ones."""
    words = np.concatenate(
        [rng.integers(0, m, n, dtype=np.uint64) for n, m in zip(lengths, moduli, strict=True)]
    )
    for plane, modulus in zip(planes_of(words, lengths), moduli, strict=True):
        plane[rng.random(len(plane)) < 0.1] = modulus - 1
        for start in range(0, len(plane), ROW_WORDS):
            plane[start : start + head_words(modulus)] = 0
    return words


def tagged(words, lengths, moduli, digest=DIGEST, key=KEY):
    """A site's words with its tags."""
    own = words.copy()
    MacKey(key).tag(own, lengths, moduli, digest)
    return own


def added(shares, lengths, moduli):
    """The sum of several sites' words, in Python integers."""
    per_word = np.repeat(np.array(moduli, dtype=object), lengths)
    return (sum(share.astype(object) for share in shares) % per_word).astype(np.uint64)


def accepted(words, lengths, moduli, n_sites, digest=DIGEST, key=KEY):
    """Whether a site takes words for the sum over so many sites."""
    try:
        MacKey(key).check(words, lengths, moduli, digest, n_sites=n_sites)
    except ForgedSumError:
        return False
    return True


# ------------------------------------------------------------------ laws


@st.composite
def summed(draw):
    """Moduli, plane lengths and the words of every site."""
    moduli = draw(st.sampled_from([*IN_USE.values(), *ODD.values()]))
    counts = [0, 1, 17, *(ROW_WORDS - head_words(moduli[0]) + k for k in (-1, 0, 1)), 9000]
    lengths = lengths_of(draw(st.tuples(*[st.sampled_from(counts)] * len(moduli))), moduli)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_sites = draw(st.sampled_from([1, 2, 3, 10, 101]))
    return moduli, lengths, [drawn(rng, lengths, moduli) for _ in range(n_sites)]


@given(summed())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_the_tags_of_a_sum_are_the_sums_of_the_tags(case):
    moduli, lengths, words = case
    shares = [tagged(own, lengths, moduli) for own in words]
    total = added(shares, lengths, moduli)
    assert accepted(total, lengths, moduli, len(words))
    # what is tagged are the values, and nothing but the heads is written
    plain = added(words, lengths, moduli)
    for plane, bare, modulus in zip(
        planes_of(total, lengths), planes_of(plain, lengths), moduli, strict=True
    ):
        for start in range(0, len(plane), ROW_WORDS):
            values = slice(start + head_words(modulus), start + ROW_WORDS)
            assert plane[start] == 0
            assert plane[values].tolist() == bare[values].tolist()


@given(summed())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_sum_over_another_number_of_sites_is_not_accepted(case):
    moduli, lengths, words = case
    if moduli == ODD["tiny"]:
        return  # k_0 may be zero, or the numbers the same modulo 5
    total = added([tagged(own, lengths, moduli) for own in words], lengths, moduli)
    for n_sites in {1, 2, len(words) - 1, len(words) + 1, 2 * len(words)} - {len(words)}:
        assert not accepted(total, lengths, moduli, n_sites)


@given(
    moduli=st.sampled_from([*IN_USE.values(), *ODD.values()]),
    counts=st.tuples(*[st.integers(0, 60)] * 3),
    n_sites=st.integers(1, 100),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_tags_are_those_of_the_definition(moduli, counts, n_sites, seed):
    lengths = lengths_of(counts[: len(moduli)], moduli)
    words = drawn(np.random.default_rng(seed), lengths, moduli)
    planes = [plane.tolist() for plane in planes_of(words, lengths)]
    one = plain_masks.tagged(planes, KEY, DIGEST, moduli)
    assert tagged(words, lengths, moduli).tolist() == [word for plane in one for word in plane]
    of_sum = plain_masks.tagged(planes, KEY, DIGEST, moduli, n_sites)
    total = np.array([word for plane in of_sum for word in plane], dtype=np.uint64)
    assert accepted(total, lengths, moduli, n_sites)


def test_tags_are_those_of_the_golden_file():
    golden = json.loads((plain_masks.GOLDEN / "sum_tags.json").read_text())
    assert golden == plain_masks.golden_tags()
    key, digest = (bytes.fromhex(golden[name]) for name in ("sum_key", "digest"))
    for planes in golden["tags"].values():
        moduli = tuple(int(plane["modulus"]) for plane in planes)
        lengths = [plane["length"] for plane in planes]
        shares = []
        for site in range(golden["sites"]):
            words = [
                plain_masks.golden_words(site, length, modulus, head_words(modulus))
                for length, modulus in zip(lengths, moduli, strict=True)
            ]
            bare = np.concatenate([np.array(plane, dtype=np.uint64) for plane in words])
            shares.append(tagged(bare, lengths, moduli, digest, key))
        total = added(shares, lengths, moduli)
        assert accepted(total, lengths, moduli, golden["sites"], digest, key)
        for number, plane in enumerate(planes):
            for words, expected in zip(
                [*shares, total], [*plane["of_sites"], plane["of_sum"]], strict=True
            ):
                own = planes_of(words, lengths)[number].tolist()
                assert plain_masks.tags_of(own, moduli[number]) == expected


def test_a_row_has_as_many_tags_as_make_50_bits():
    for moduli, count in ((WORD_MODULI, 1), (BFV, 2), (HIGH, 1)):
        for modulus in moduli:
            assert tags_per_row(modulus) == plain_masks.tag_count(modulus) == count
            assert modulus ** tags_per_row(modulus) > 2**50
    assert [tags_per_row(m) for m in (2**50 - 27, 2**50 + 1, 2, 5)] == [2, 1, 50, 25]


def test_equal_words_have_unrelated_tags_elsewhere():
    moduli = (WORD_MODULI[0],) * 2
    lengths = [2 * ROW_WORDS, ROW_WORDS]
    words = np.zeros(sum(lengths), dtype=np.uint64)
    seen = set()
    for digest in (DIGEST, bytes(32)):
        for key in (KEY, bytes(32)):
            own = tagged(words, lengths, moduli, digest, key)
            seen |= set(own[[1, ROW_WORDS + 1, 2 * ROW_WORDS + 1]].tolist())
    assert len(seen) == 12
    twice = tagged(np.zeros(9, dtype=np.uint64), [9], BFV[:1])
    assert len({*twice[1:3].tolist(), 0}) == 3


# ------------------------------------------------------------------ forgeries


@dataclass
class Round:
    """What a coordinator has of a round under some moduli, and all that it should not have."""

    moduli: tuple[int, ...]
    n_sites: int
    rng: np.random.Generator

    def __post_init__(self):
        # two rows in the first plane, one in the others
        self.lengths = lengths_of([4200, *[7] * (len(self.moduli) - 1)], self.moduli)
        self.shares = self._shares(DIGEST)
        self.total = added(self.shares, self.lengths, self.moduli)
        self.another = added(self._shares(bytes(32)), self.lengths, self.moduli)
        self.per_word = np.repeat(np.array(self.moduli, dtype=object), self.lengths)
        heads = np.concatenate(
            [
                np.arange(length) % ROW_WORDS < head_words(modulus)
                for length, modulus in zip(self.lengths, self.moduli, strict=True)
            ]
        )
        self.values = np.flatnonzero(~heads)
        starts = np.cumsum([0, *self.lengths[:-1]])
        self.checks = [
            start + row
            for start, length in zip(starts, self.lengths, strict=True)
            for row in range(0, length, ROW_WORDS)
        ]
        self.tags = np.setdiff1d(np.flatnonzero(heads), self.checks)

    def _shares(self, digest):
        return [
            tagged(drawn(self.rng, self.lengths, self.moduli), self.lengths, self.moduli, digest)
            for _ in range(self.n_sites)
        ]

    def altered(self, positions):
        """The sum with something added at some positions: small, or anything."""
        words = self.total.copy()
        for position in np.atleast_1d(positions).tolist():
            modulus = self.per_word[position]
            step = int(self.rng.choice([1, -1, self.rng.integers(1, modulus)]))
            words[position] = (int(words[position]) + step) % modulus
        return words


def one_word(own):
    return own.altered(own.rng.choice(own.values))


def several_words(own):
    return own.altered(own.rng.choice(own.values, own.rng.integers(2, 60), replace=False))


def scaled(own):
    """A multiple of the sum, its tags with it."""
    factor = int(own.rng.choice([0, 2, -1, own.rng.integers(2, min(own.moduli))]))
    return (own.total.astype(object) * factor % own.per_word).astype(np.uint64)


def single_share(own):
    return own.shares[own.rng.integers(own.n_sites)].copy()


def all_but_one(own):
    left_out = own.rng.integers(own.n_sites)
    kept = [share for site, share in enumerate(own.shares) if site != left_out]
    return added(kept, own.lengths, own.moduli)


def of_another_question(own):
    return own.another.copy()


def mixed_with_another_question(own):
    """Some planes or rows of the sum of another question, with their tags."""
    words = own.total.copy()
    first, last = own.rng.choice(list(pairwise([*own.checks, len(words)])))
    words[first:last] = own.another[first:last]
    return words


def check_word(own):
    return own.altered(own.rng.choice(own.checks))


def tag_alone(own):
    return own.altered(own.rng.choice(own.tags))


def word_and_guessed_tags(own):
    """One word altered, and all tags drawn at random."""
    words = one_word(own)
    words[own.tags] = [own.rng.integers(own.per_word[tag]) for tag in own.tags.tolist()]
    return words


def swapped_tags(own):
    """The tags of the two rows of the first plane, exchanged."""
    words, head = own.total.copy(), head_words(own.moduli[0])
    rows = slice(1, head), slice(ROW_WORDS + 1, ROW_WORDS + head)
    words[rows[0]], words[rows[1]] = own.total[rows[1]], own.total[rows[0]]
    return words


def swapped_values(own):
    """Two values of one row, exchanged."""
    words = own.total.copy()
    row = own.values[own.values < ROW_WORDS]
    while (words == own.total).all():
        one, other = own.rng.choice(row, 2, replace=False)
        words[[one, other]] = own.total[[other, one]]
    return words


def not_reduced(own):
    """The same residues, but one word larger by its modulus."""
    words = own.total.copy()
    place = own.rng.choice([*own.checks, *own.tags, *own.values[:50]])
    words[place] += np.uint64(own.per_word[place] * int(own.rng.integers(1, 200)))
    return words


FORGERIES = (
    one_word,
    several_words,
    scaled,
    single_share,
    all_but_one,
    of_another_question,
    mixed_with_another_question,
    check_word,
    tag_alone,
    word_and_guessed_tags,
    swapped_tags,
    swapped_values,
    not_reduced,
)


@pytest.mark.parametrize(
    ("name", "attempts"), [("words", 10_000), ("bfv", 1_000), ("bfv-high", 1_000)]
)
def test_every_forgery_of_a_coordinator_is_noticed(name, attempts):
    rng = np.random.default_rng(1)
    rounds = [Round(IN_USE[name], n_sites, rng) for n_sites in (2, 3, 7)]
    noticed = Counter()
    for attempt in range(attempts):
        own = rounds[attempt % len(rounds)]
        forge = FORGERIES[attempt % len(FORGERIES)]
        forged = forge(own)
        assert (forged != own.total).any(), forge.__name__
        noticed[forge.__name__] += not accepted(forged, own.lengths, own.moduli, own.n_sites)
    assert noticed.total() == attempts, noticed
    assert set(noticed) == {forge.__name__ for forge in FORGERIES}
    assert all(accepted(own.total, own.lengths, own.moduli, own.n_sites) for own in rounds)


@pytest.mark.parametrize("moduli", IN_USE.values(), ids=IN_USE)
def test_a_sum_of_another_key_digest_or_plane_order_is_refused(moduli):
    own = Round(moduli, 3, np.random.default_rng(2))
    total, lengths = own.total, own.lengths
    assert accepted(total, lengths, moduli, 3)
    assert not accepted(total, lengths, moduli, 3, digest=bytes(32))
    assert not accepted(total, lengths, moduli, 3, key=bytes(32))
    for position in range(32):
        changed = bytearray(DIGEST)
        changed[position] ^= 1
        assert not accepted(total, lengths, moduli, 3, digest=bytes(changed))
    if len(moduli) > 2:
        planes = planes_of(total, lengths)
        swapped = np.concatenate([planes[0], planes[2], planes[1]])
        assert not accepted(swapped, lengths, moduli, 3)


# ------------------------------------------------------------------ the key


@pytest.mark.parametrize("length", [0, 1, 16, 31, 33, 64])
def test_a_key_of_another_length_is_refused_and_not_told(length):
    content = b"TOPSECRET" * 8
    with pytest.raises(KeyAgreementError, match="32 bytes") as refusal:
        MacKey(content[:length])
    assert "TOPSECRET" not in repr(refusal.value) + refusal.value.remedy


def test_a_refusal_tells_neither_words_nor_tags():
    own = Round(BFV, 3, np.random.default_rng(4))
    with pytest.raises(ForgedSumError) as refusal:
        MacKey(KEY).check(one_word(own), own.lengths, BFV, DIGEST, n_sites=3)
    assert not any(character.isdigit() for character in str(refusal.value))
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None
