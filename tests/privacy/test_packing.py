"""Small sums that share words: laws, against plain integers, and what a sum may not be."""

import numpy as np
import plain_masks
import pytest
from cohort import declare
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.errors import AggregateRangeError
from cipherdag.privacy.aggregation import Segment
from cipherdag.privacy.bfvcontext import PLAINTEXT_MODULI
from cipherdag.privacy.fixedpoint import decode, encode, plane_lengths, words_to_bytes
from cipherdag.privacy.homomorphic_mac import head_words
from cipherdag.privacy.residues import WORD_MODULI, Packing, from_integers, pack, unpack

MODULI = [WORD_MODULI, PLAINTEXT_MODULI]


@st.composite
def cohorts(draw):
    """A modulus, and of every site the numbers of one segment, up to its very bounds."""
    modulus = draw(st.sampled_from([*WORD_MODULI, *PLAINTEXT_MODULI, 257]))
    n_sites = draw(st.integers(1, 9))
    bound = draw(st.sampled_from([0, 1, 2, 40, 4096, 2**20]))
    lowest = draw(st.sampled_from([0, -bound]))
    if 2 * n_sites * bound >= modulus:
        bound, lowest = 1, min(lowest, 0) and -1
    length = draw(st.integers(0, 70))
    numbers = st.lists(st.integers(lowest, bound), min_size=length, max_size=length)
    sites = np.array([draw(numbers) for _ in range(n_sites)], dtype=np.int64)
    base = n_sites * (bound - lowest) + 1
    return modulus, sites.reshape(n_sites, length), Packing.of(length, base, lowest, modulus)


@given(cohorts())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_the_sum_of_words_holds_the_sums_of_numbers_and_nothing_else(cohort):
    modulus, sites, own = cohort
    shares = [own.pack(from_integers(row, modulus), modulus).tolist() for row in sites]
    total = np.array([sum(column) % modulus for column in zip(*shares, strict=True)], np.uint64)
    whole = sites.sum(axis=0)
    assert total.shape == (own.words,)
    found = own.unpack(total, modulus, len(sites))
    assert found.tolist() == (whole % modulus).tolist()
    # the very words of the sums, whoever had how much of them
    if own.digits > 1:
        other = plain_masks.packed(whole.tolist(), len(sites) * own.lowest, own.base, own.digits)
        assert total.tolist() == other


@given(cohorts())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_site_sends_the_words_of_the_plain_program(cohort):
    modulus, sites, own = cohort
    for row in sites:
        words = own.pack(from_integers(row, modulus), modulus)
        assert (words < modulus).all()
        if own.digits > 1:
            plain = plain_masks.packed(row.tolist(), own.lowest, own.base, own.digits)
            assert words.tolist() == plain


@pytest.mark.parametrize("modulus", [WORD_MODULI[0], PLAINTEXT_MODULI[0], 257, 4])
@pytest.mark.parametrize("base", [1, 2, 3, 17, 2**18, 2**28 + 3])
def test_as_many_digits_share_a_word_as_it_has_room_for(modulus, base):
    own = Packing.of(1000, base, 0, modulus)
    assert own.digits == 1 or max(base, 2) ** own.digits <= modulus
    assert max(base, 2) ** (own.digits + 1) > modulus
    assert Packing.of(1, base, 0, modulus).digits == 1
    assert Packing.of(0, base, 0, modulus).words == 0


@pytest.mark.parametrize("moduli", MODULI)
def test_a_word_with_more_than_its_digits_is_refused(moduli):
    declaration = declare(3, Segment(5, 6.0))
    base = 38
    own = Packing.of(5, base, 0, moduli[0])
    assert own.digits == 5
    largest = sum(18 * base**digit for digit in range(5))
    for more, possible in ((0, True), (1, False), (base**2, False), (base**5, False), (-19, False)):
        word = largest + more
        content = words_to_bytes(np.array([0] * head_words(moduli[0]) + [word], np.uint64))
        if possible:
            assert decode(content, declaration, moduli).values.tolist() == [18.0] * 5
        else:
            with pytest.raises(AggregateRangeError):
                decode(content, declaration, moduli)


def test_a_digit_where_there_is_no_number_is_refused():
    own = Packing(length=5, base=10, lowest=0, digits=3)
    assert own.unpack(np.array([531, 42], np.uint64), 1009, 2).tolist() == [1, 2, 3, 4, 5]
    assert own.unpack(np.array([531, 142], np.uint64), 1009, 2) is None
    packings = [Packing.of(1, 5, 0, 1009), own]
    with pytest.raises(AggregateRangeError, match="segment 1 of the sum .* cannot produce"):
        unpack(np.array([1, 531, 142], np.uint64), packings, 1009, 2)


@pytest.mark.parametrize("moduli", MODULI)
def test_segments_share_no_word_and_what_is_compared_has_its_own(moduli):
    segments = (
        Segment(30, 1.0),
        Segment(4, 1.0, comparison=True),
        Segment(3, 2.0**60),
        Segment(31, 2.0, 4, signed=True),
    )
    declaration = declare(2, *segments)
    own = [Packing.of(30, 6, 0, moduli[0]), Packing.of(31, 258, -32, moduli[0])]
    first, *others = plane_lengths(declaration, moduli)
    assert first == head_words(moduli[0]) + own[0].words + 4 + 3 + own[1].words
    assert others[0] == head_words(moduli[1]) + 3
    answer = np.concatenate(
        [np.ones(30), [0, 1, 0, 1], np.full(3, 2.0**59), np.linspace(-2, 2, 31)]
    )
    words = [encode(answer, declaration, moduli).tolist() for _ in range(2)]
    modulus = np.repeat(np.array(moduli, object), plane_lengths(declaration, moduli))
    total = [sum(pair) % m for pair, m in zip(zip(*words, strict=True), modulus, strict=True)]
    found = decode(words_to_bytes(np.array(total, np.uint64)), declaration, moduli).values
    rounded = np.rint(16 * answer[37:]) / 16
    assert found.tolist() == [*[2.0] * 30, 0, 1, 0, 1, *[2.0**60] * 3, *(2 * rounded)]


def test_runs_are_packed_one_after_the_other():
    packings = [Packing.of(4, 7, -1, 257), Packing.of(3, 257, 0, 257), Packing.of(0, 2, 0, 257)]
    residues = from_integers(np.array([-1, 0, 1, 2, 5, 6, 7]), 257)
    words = pack(residues, packings, 257)
    assert words.tolist() == [0 + 2 * 7, 1 + 3 * 7, 5, 6, 7]
    assert unpack(words, packings, 257, 1).tolist() == residues.tolist()
    assert pack(residues[:0], [], 257).tolist() == []
