"""Descriptions of secure tests: forms never wrap, and what is malformed is refused."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpc_cohort import Comparison, Predicates, score_tests, spelled_out
from plain_secure_tests import widths
from secure_test_cases import form

from cipherdag.errors import MalformedMessageError, ParameterError
from cipherdag.privacy.mpc.words import WordPacking, form_values, linear_values, predicates_digest

INTEGERS = st.integers(-(2**20), 2**20)


@st.composite
def asked(draw, largest=2**20):
    """Bounds and tests of small forms."""
    n_words = draw(st.integers(1, 4))
    lowest = draw(st.lists(st.integers(-largest, 0), min_size=n_words, max_size=n_words))
    highest = draw(st.lists(st.integers(0, largest), min_size=n_words, max_size=n_words))
    pairs = [(i, j) for i in range(n_words) for j in range(i, n_words)]
    nonzero = st.integers(-50, 50).filter(bool)

    def comparison():
        quadratic = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3))
        linear = draw(st.lists(st.integers(0, n_words - 1), unique=True, max_size=3))
        return Comparison(
            tuple((i, j, draw(nonzero)) for i, j in sorted(quadratic)),
            tuple((j, draw(nonzero)) for j in sorted(linear)),
            draw(INTEGERS),
        )

    tests = [[comparison() for _ in range(draw(st.integers(1, 3)))] for _ in range(2)]
    return lowest, highest, tests


def values(comparison, x):
    """T in Python integers."""
    found = comparison.constant + sum(c * x[i] * x[j] for i, j, c in comparison.quadratic)
    return found + sum(c * x[j] for j, c in comparison.linear)


# ------------------------------------------------------------------ nothing wraps


@given(asked(), st.data())
@settings(max_examples=200)
def test_every_form_stays_in_the_middle_half_of_its_ring(world, data):
    lowest, highest, tests = world
    predicates = spelled_out(lowest, highest, tests)
    bits = predicates.widths().tolist()
    ends = st.tuples(*(st.sampled_from((a, b)) for a, b in zip(lowest, highest, strict=True)))
    inside = st.tuples(*(st.integers(a, b) for a, b in zip(lowest, highest, strict=True)))
    x = data.draw(st.one_of(ends, inside))
    low, high = predicates.ranges()
    for place, comparison in enumerate(item for test in tests for item in test):
        t = values(comparison, x)
        assert low[place] <= t <= high[place]
        middle = 2 ** (bits[place] - 2)
        assert -middle <= t - 1 < middle
        # what the ring's highest bit says is what was asked
        assert ((t - 1) % 2 ** bits[place] < 2 ** (bits[place] - 1)) == (t > 0)


@given(asked())
def test_widths_are_the_least_that_fit(world):
    lowest, highest, tests = world
    spelled = [
        [form(item.quadratic, item.linear, item.constant) for item in test] for test in tests
    ]
    case = {"lowest": lowest, "highest": highest, "tests": spelled}
    assert spelled_out(lowest, highest, tests).widths().tolist() == widths(case)


@given(asked(), st.lists(st.integers(0, 2**64 - 1), min_size=4, max_size=4))
def test_forms_modulo_2_64_are_those_of_integers(world, x):
    lowest, highest, tests = world
    predicates = spelled_out(lowest, highest, tests)
    x = x[: len(lowest)]
    words = np.array(x, dtype=np.uint64)
    each = [item for test in tests for item in test]
    wanted = [(values(item, x) - item.constant) % 2**64 for item in each]
    assert form_values(predicates, words).tolist() == wanted
    linear = [sum(c * x[j] for j, c in item.linear) % 2**64 for item in each]
    assert linear_values(predicates, words).tolist() == linear


def test_widths_of_score_tests_follow_from_the_rows():
    # |U| is at most a quarter of the rows, on a grid of 1/16; W = z^2 V, z^2 at most 40, of 1/256
    for rows, expected in ((5000, 31), (50_000, 38), (2**20, 46)):
        predicates = score_tests([1], scores=rows * 4, variances=40 * rows * 64, constant=1536)
        assert predicates.widths().tolist() == [expected]


def test_forms_at_the_very_limit():
    one = Comparison(quadratic=((0, 0, 1),))
    most = 2**31 - 2**12
    assert spelled_out([-most], [most], [[one]]).widths().tolist() == [64]
    for wrong in (2**31, 2**62, 2**63 - 1, 2**70):
        with pytest.raises(ParameterError, match=r"2\*\*62"):
            spelled_out([-1], [wrong], [[one]])
    with pytest.raises(ParameterError, match=r"2\*\*62"):
        spelled_out([0], [1], [[Comparison(linear=((0, 2**61),), constant=2**61)]])


# ------------------------------------------------------------------ the description


def test_terms_come_into_order_and_names_of_a_product_do_not_matter():
    first = spelled_out([-1] * 3, [1] * 3, [[Comparison(((2, 0, 5), (1, 1, 2)), ((2, 1), (0, 3)))]])
    second = spelled_out(
        [-1] * 3, [1] * 3, [[Comparison(((1, 1, 2), (0, 2, 5)), ((0, 3), (2, 1)))]]
    )
    assert first.packed == second.packed
    assert first.quadratic.tolist() == [[0, 0, 2, 5], [0, 1, 1, 2]]


def test_the_digest_depends_on_every_field():
    base = spelled_out(
        [-5, -5], [5, 5], [[Comparison(((0, 0, 1),), ((1, -2),), -3)], [Comparison((), ((0, 4),))]]
    )
    seen = {predicates_digest(base)}
    for item in fields(base):
        array = getattr(base, item.name).copy()
        if item.name == "sizes":
            changed = replace(base, sizes=np.array([2], dtype=np.int64))
        else:
            array.reshape(-1)[-1] += -1 if item.name == "lowest" else 1
            changed = replace(base, **{item.name: array})
        seen.add(predicates_digest(changed))
    assert len(seen) == 1 + len(fields(base))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("lowest", [1, 0]),
        ("highest", [0, -1]),
        ("lowest", [0]),
        ("sizes", [0, 2]),
        ("sizes", [1]),
        ("sizes", []),
        ("constants", [1]),
        ("quadratic", [[2, 0, 0, 1]]),
        ("quadratic", [[0, 0, 2, 1]]),
        ("quadratic", [[0, 1, 0, 1]]),
        ("quadratic", [[0, 0, 0, 0]]),
        ("quadratic", [[0, 0, 0, 1], [0, 0, 0, 2]]),
        ("quadratic", [[1, 0, 0, 1], [0, 0, 0, 2]]),
        ("quadratic", [[-1, 0, 0, 1]]),
        ("linear", [[0, 5, 1]]),
        ("linear", [[0, 1, 1], [0, 0, 1]]),
        ("linear", [[0, 1]]),
    ],
    ids=str,
)
def test_what_is_malformed_is_refused(name, wrong):
    base = spelled_out([-5, -5], [5, 5], [[Comparison(((0, 0, 1),))], [Comparison((), ((0, 4),))]])
    with pytest.raises(ParameterError):
        replace(base, **{name: np.array(wrong, dtype=np.int64)})


def test_other_types_and_too_many_are_refused():
    base = spelled_out([-5], [5], [[Comparison((), ((0, 4),))]])
    with pytest.raises(ParameterError):
        replace(base, lowest=np.array([-5.0]))
    many = np.zeros(2**18 + 1, dtype=np.int64)
    with pytest.raises(ParameterError, match="262144"):
        replace(base, constants=many, sizes=np.array([many.size]))
    with pytest.raises(ParameterError):
        spelled_out([], [], [[Comparison((), (), 1)]])


# ------------------------------------------------------------------ words


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(1, 64)), max_size=20))
def test_words_come_back_reduced_each_to_its_ring(drawn):
    packing = WordPacking(np.array([width for _, width in drawn], dtype=np.int64))
    packed = packing.pack(np.array([word for word, _ in drawn], dtype=np.uint64))
    expected = [(word % 2**width, -(-width // 8)) for word, width in drawn]
    assert packed == b"".join(word.to_bytes(length, "little") for word, length in expected)
    assert packing.n_bytes == len(packed)
    assert packing.unpack(packed).tolist() == [word for word, _ in expected]


def test_words_that_are_cut_short_or_not_reduced_are_refused():
    packing = WordPacking(np.array([13, 4]))
    packed = packing.pack(np.array([1, 2], dtype=np.uint64))
    for wrong in (packed[:-1], packed + b"\0", b"\xff" * 3, b"\0\0\x10"):
        with pytest.raises(MalformedMessageError):
            packing.unpack(wrong)


@given(asked(), asked())
def test_tests_that_are_joined_ask_the_same_of_their_own_words(one, other):
    first, second = spelled_out(*one), spelled_out(*other)
    words, others = (np.arange(own.n_words, dtype=np.int64) - 2 for own in (first, second))
    both = Predicates.joined([first, second])
    forms = form_values(both, np.concatenate([words, others]).view(np.uint64))
    apart = [form_values(first, words.view(np.uint64)), form_values(second, others.view(np.uint64))]
    assert (forms == np.concatenate(apart)).all()
    assert both.n_tests == first.n_tests + second.n_tests
