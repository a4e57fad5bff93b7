import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from cohort import declare, questions, values_of
from hypothesis import given, settings
from scipy import stats

from cipherdag.errors import AggregateRangeError, BoundExceededError, ParameterError, ShareError
from cipherdag.privacy import residues
from cipherdag.privacy.aggregation import Declaration, Segment
from cipherdag.privacy.bfvcontext import PLAINTEXT_MODULI
from cipherdag.privacy.fixedpoint import (
    MAX_TOTAL,
    ROW_WORDS,
    decode,
    encode,
    plane_lengths,
    words_to_bytes,
)
from cipherdag.privacy.homomorphic_mac import head_words
from cipherdag.privacy.residues import MAX_MODULUS, WORD_MODULI

LARGE = (18014398509309953, 18014398509293569)
EVERY_MODULI = [WORD_MODULI, PLAINTEXT_MODULI, LARGE]


def summed(answers, declaration, moduli):
    """The reduced sum of the sites' words, in Python integers."""
    encoded = [encode(a, declaration, moduli).tolist() for a in answers]
    per_word = np.repeat(
        np.array(moduli, dtype=object), plane_lengths(declaration, moduli)
    ).tolist()
    totals = [sum(words) % m for words, m in zip(zip(*encoded, strict=True), per_word, strict=True)]
    return words_to_bytes(np.array(totals, dtype=np.uint64))


def exact_sum(answers, declaration):
    """The same aggregate by rational arithmetic, rounded once at the end."""
    sums, start = [], 0
    for segment in declaration.segments:
        for position in range(start, start + segment.length):
            values = [Fraction(float(answer[position])) for answer in answers]
            if segment.comparison:
                sums.append(float(any(values)))
            else:
                whole = sum(round(value * 2**segment.resolution_bits) for value in values)
                sums.append(whole / 2**segment.resolution_bits)
        start += segment.length
    return np.array(sums, dtype=float)


@pytest.mark.parametrize("moduli", EVERY_MODULI, ids=["words", "bfv", "large"])
@given(question=questions(min_sites=1))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_every_sum_is_the_exact_one(moduli, question):
    declaration, answers = question
    found = decode(summed(answers, declaration, moduli), declaration, moduli).values
    assert found.tobytes() == (exact_sum(answers, declaration) + 0.0).tobytes()


@pytest.mark.parametrize("moduli", EVERY_MODULI)
def test_a_value_takes_a_second_residue_just_where_one_would_wrap(moduli):
    largest = (moduli[0] - 1) // 2
    for n_sites in (1, 3, 100):
        fits = float(largest // n_sites)
        fits = fits if int(fits) * n_sites <= largest else math.nextafter(fits, 0.0)
        for bound, planes in ((fits, 1), (math.nextafter(fits, math.inf), 2)):
            declaration = declare(n_sites, Segment(2, bound, signed=True))
            assert sum(n > 0 for n in plane_lengths(declaration, moduli)) == planes
            answers = [np.array([bound, -bound])] * n_sites
            found = decode(summed(answers, declaration, moduli), declaration, moduli).values
            assert found.tolist() == exact_sum(answers, declaration).tolist()


@pytest.mark.parametrize("moduli", EVERY_MODULI)
def test_a_hundred_sites_at_the_largest_total(moduli):
    bound = 2.0**106 / 128
    declaration = declare(100, Segment(3, bound, signed=True))
    answers = [np.array([bound, -bound, 0.0])] * 100
    found = decode(summed(answers, declaration, moduli), declaration, moduli).values
    assert found.tolist() == [100 * bound, -100 * bound, 0.0]


@pytest.mark.parametrize("moduli", EVERY_MODULI)
def test_larger_totals_are_refused_alike_by_all(moduli):
    encode(np.zeros(1), declare(2, Segment(1, float(MAX_TOTAL // 2))), moduli)
    with pytest.raises(ParameterError):
        encode(np.zeros(1), declare(3, Segment(1, float(MAX_TOTAL // 2))), moduli)


@pytest.mark.parametrize("moduli", EVERY_MODULI)
@pytest.mark.parametrize("bound", [2.0**30, 2.0**62, 2.0**90])
def test_a_sum_shows_nothing_of_how_it_came_about(moduli, bound):
    # digits with carries would tell the number of negative answers
    declaration = declare(3, Segment(2, bound, 10, signed=True))
    one = [np.array([a, 1.0]) for a in (-1.0, 0.5, 0.5)]
    other = [np.array([a, b]) for a, b in ((7.0, 3.0), (-9.0, bound / 2), (2.0, -bound / 2))]
    assert summed(one, declaration, moduli) == summed(other, declaration, moduli)


@pytest.mark.parametrize(
    ("segment", "value"),
    [
        (Segment(1, 1.0), math.nan),
        (Segment(1, 1.0), math.inf),
        (Segment(1, 1.0), -math.inf),
        (Segment(1, 1.0), np.nextafter(1.0, 2.0)),
        (Segment(1, 1.0), -12345.678),
        (Segment(1, 1.0), -1.0),
        (Segment(1, 1.0), np.nextafter(-0.5, -1.0)),
        (Segment(1, 1.0, 20), np.nextafter(-(2.0**-21), -1.0)),
        (Segment(1, 1.0, signed=True), np.nextafter(-1.0, -2.0)),
        (Segment(1, 1.0, signed=True), math.nan),
        (Segment(1, 1.0, comparison=True), 0.5),
        (Segment(1, 5.0, comparison=True), 2.0),
        (Segment(1, 1.0, comparison=True), math.nan),
    ],
)
def test_values_beyond_the_bound_are_refused_and_not_told(segment, value):
    answer = np.array([0.0, value])
    with pytest.raises(BoundExceededError) as refusal:
        encode(answer, declare(2, Segment(1, 1.0), segment), WORD_MODULI)
    text = str(refusal.value) + refusal.value.remedy
    assert "segment 1" in text
    assert "12345" not in text
    assert "nan" not in text
    assert "inf," not in text


@pytest.mark.parametrize(
    "answer",
    [np.zeros(1), np.zeros(3), np.zeros((2, 1)), np.zeros(2, np.float32), np.zeros(2, int)],
)
def test_answers_of_another_shape_or_type_are_refused(answer):
    with pytest.raises(BoundExceededError):
        encode(answer, declare(2, Segment(2, 1.0)), WORD_MODULI)


def test_minus_zero_is_zero():
    declaration = declare(1, Segment(2, 1.0, 20), Segment(1, 1.0, comparison=True))
    words = encode(np.array([-0.0, -(2.0**-21), -0.0]), declaration, WORD_MODULI)
    assert not words.any()
    found = decode(words_to_bytes(words), declaration, WORD_MODULI).values
    assert found.tolist() == [0.0, 0.0, 0.0]
    assert not np.signbit(found).any()


@pytest.mark.parametrize(
    "segment",
    [
        Segment(-1, 1.0),
        Segment(1, math.nan),
        Segment(1, math.inf),
        Segment(1, -1.0),
        Segment(1, 1.0, -1),
        Segment(1, 1.0, 10_000),
    ],
)
def test_impossible_declarations_are_refused(segment):
    with pytest.raises(ParameterError):
        plane_lengths(declare(2, segment), WORD_MODULI)


def test_a_declaration_needs_a_digest_and_a_cohort():
    with pytest.raises(ParameterError):
        plane_lengths(Declaration(b"", 2, ()), WORD_MODULI)
    with pytest.raises(ParameterError):
        plane_lengths(declare(0), WORD_MODULI)


def test_no_answer_is_too_short_to_be_checked():
    for segments in ((), (Segment(0, 1.0),), (Segment(0, 1e30), Segment(0, 1.0, comparison=True))):
        declaration = declare(2, *segments)
        assert plane_lengths(declaration, WORD_MODULI) == (2, 0)
        assert decode(bytes(16), declaration, WORD_MODULI).values.shape == (0,)
        with pytest.raises(AggregateRangeError):
            decode(b"\x01" + bytes(15), declaration, WORD_MODULI)


@pytest.mark.parametrize(
    ("moduli", "head"), [(EVERY_MODULI[0], 2), (EVERY_MODULI[1], 3), (EVERY_MODULI[2], 2)]
)
def test_every_row_of_a_plane_has_a_check_word_and_room_for_tags(moduli, head):
    assert [head_words(modulus) for modulus in moduli] == [head] * len(moduli)
    most = ROW_WORDS - head
    declaration = declare(2, Segment(5000, 2.0**30), Segment(most, 2.0**80))
    lengths = plane_lengths(declaration, moduli)
    assert lengths == (5000 + most + 3 * head, *[ROW_WORDS] * (len(moduli) - 1))
    words = encode(np.full(5000 + most, 1.0), declaration, moduli)
    starts = [0, ROW_WORDS, 2 * ROW_WORDS, *np.cumsum(lengths)[:-1].tolist()]
    heads = [start + place for start in starts for place in range(head)]
    assert not words[heads].any()
    assert np.delete(words, heads).all()
    for start in starts:
        altered = words.copy()
        altered[start] = 1
        with pytest.raises(AggregateRangeError):
            decode(words_to_bytes(altered), declaration, moduli)


@pytest.mark.parametrize("moduli", EVERY_MODULI)
def test_sums_beyond_what_the_cohort_can_produce_are_refused(moduli):
    for signed, bound in itertools.product((True, False), (3.0, 2.0**70)):
        declaration = declare(2, Segment(1, bound, signed=signed))
        largest = 2 * int(bound)
        planes = sum(n > 0 for n in plane_lengths(declaration, moduli))
        for whole, accepted in (
            (largest, True),
            (0, True),
            (-1, signed),
            (-largest, signed),
            (largest + 1, False),
            (-largest - 1, False),
            (math.prod(moduli[:planes]) // 2, False),
        ):
            words = [w for m in moduli[:planes] for w in (*[0] * head_words(m), whole % m)]
            content = words_to_bytes(np.array(words, dtype=np.uint64))
            if accepted:
                assert decode(content, declaration, moduli).values.tolist() == [float(whole)]
            else:
                with pytest.raises(AggregateRangeError):
                    decode(content, declaration, moduli)


def test_words_that_are_not_reduced_or_of_another_number_are_refused():
    moduli = PLAINTEXT_MODULI
    declaration = declare(2, Segment(1, 1.0, comparison=True))
    with pytest.raises(AggregateRangeError):
        decode(words_to_bytes(np.array([0, 0, 0, moduli[0]], np.uint64)), declaration, moduli)
    for length in (0, 24, 31, 33, 40):
        with pytest.raises(ShareError):
            decode(bytes(length), declaration, moduli)


@pytest.mark.parametrize("moduli", EVERY_MODULI)
def test_comparisons_hide_how_many_exceed(moduli):
    length, bins = 20_000, 64
    declaration = declare(10, Segment(length, 1.0, comparison=True))
    for exceeding in (1, 2, 3, 10):
        answers = [np.full(length, float(site < exceeding)) for site in range(10)]
        content = summed(answers, declaration, moduli)
        words = values_of(np.frombuffer(content, dtype="<u8"), moduli[0])
        counts = np.bincount((words / (moduli[0] / bins)).astype(int), minlength=bins)
        assert stats.chisquare(counts).pvalue > 1e-8
        assert decode(content, declaration, moduli).values.all()


def test_comparison_words_are_fresh_and_never_zero():
    declaration = declare(2, Segment(50, 1.0, comparison=True))
    one, other = (encode(np.ones(50), declaration, WORD_MODULI)[2:] for _ in range(2))
    assert one.all()
    assert other.all()
    assert not np.intersect1d(one, other).size
    assert not encode(np.zeros(50), declaration, WORD_MODULI).any()


def test_comparison_words_come_from_the_given_source():
    calls = iter([[0, 7 << 28, 2**64 - 1], [5 << 28, 9 << 28]])
    declaration = declare(2, Segment(3, 1.0, comparison=True))
    words = encode(
        np.array([1.0, 0.0, 1.0]),
        declaration,
        PLAINTEXT_MODULI,
        random_words=lambda count: np.array(next(calls)[:count], dtype=np.uint64),
    )
    # zero and words beyond the modulus are drawn again, for sites that do not exceed as well
    assert words.tolist() == [0, 0, 0, 7, 0, 9]


@pytest.mark.parametrize("modulus", [*WORD_MODULI, *PLAINTEXT_MODULI, 5])
def test_uniform_residues_are_unbiased_however_they_are_drawn(modulus):
    def source():
        return np.random.default_rng(3).bit_generator.random_raw

    whole = residues.uniform(source(), 20_000, modulus)
    draw = source()
    parts = [residues.uniform(draw, count, modulus) for count in (1, 999, 19_000)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()
    bins = min(modulus, 50)
    counts = np.bincount((whole / (modulus / bins)).astype(int), minlength=bins)
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("modulus", {m for moduli in EVERY_MODULI for m in moduli})
def test_residues_of_floats_agree_with_python(modulus):
    rng = np.random.default_rng(4)
    values = np.rint(rng.choice([-1, 1], 500) * 2.0 ** rng.uniform(0, 106, 500))
    expected = [int(value) % modulus for value in values.tolist()]
    assert residues.from_whole(values, modulus, wide=True).tolist() == expected
    narrow = np.abs(values) < 2**63
    assert residues.from_whole(values[narrow], modulus, wide=False).tolist() == [
        w for w, keep in zip(expected, narrow, strict=True) if keep
    ]


@pytest.mark.parametrize("modulus", sorted({m for moduli in EVERY_MODULI for m in moduli} | {5}))
def test_products_of_residues_agree_with_python(modulus):
    rng = np.random.default_rng(6)
    one, other = rng.integers(0, modulus, (2, 4000), dtype=np.uint64)
    one[:4] = other[1:5] = modulus - 1
    expected = [a * b % modulus for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    assert residues.multiply(one, other, modulus).tolist() == expected
    assert residues.multiply(one, modulus - 1, modulus).tolist() == [
        a * (modulus - 1) % modulus for a in one.tolist()
    ]
    assert residues.inner(one, other, modulus) == sum(expected) % modulus
    assert residues.inner(one[:0], other[:0], modulus) == 0
    largest = np.full(1 << 16, modulus - 1, dtype=np.uint64)
    assert residues.inner(largest, largest, modulus) == (1 << 16) % modulus


@pytest.mark.parametrize("moduli", EVERY_MODULI)
def test_residues_recombine_to_the_number_nearest_to_zero(moduli):
    for count in range(2, len(moduli) + 1):
        product = math.prod(moduli[:count])
        lowest, highest = -(product // 2), (product - 1) // 2
        rng = np.random.default_rng(5)
        wholes = [lowest, lowest + 1, -1, 0, 1, highest, MAX_MODULUS, -MAX_MODULUS // 2] + [
            int.from_bytes(rng.bytes(32), "little") % product + lowest for _ in range(200)
        ]
        wholes = [whole for whole in wholes if lowest <= whole <= highest]
        parts = [np.array([w % m for w in wholes], dtype=np.uint64) for m in moduli[:count]]
        assert residues.recombine(parts, moduli[:count]).tolist() == wholes
