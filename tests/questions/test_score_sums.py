"""What is asked of score sums: layout, refusals, and forms by an independent slow reference."""

from __future__ import annotations

import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from driving import plain_verdicts
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.questions.encodings import pack_blocks, segments
from cipherdag.questions.scores.score_bits import CategorySizes, ScoreBits
from cipherdag.questions.scores.score_sums import (
    MOST_COMPONENTS,
    MOST_SITE_SCORE,
    MOST_VARIANCE,
    ScoreSums,
)
from cipherdag.questions.scores.score_test import Thresholds, p_values, site_line
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.statistics.regression_models import scored_model

CATEGORIES = (2, 3, 0, 4, 0, 5, 2)
"""Variable 5 is in an order, 2 and 4 are numbers."""
NONE = np.zeros((0, 2), dtype=np.int64)


def about(tests, categories=CATEGORIES, ordered=(5,), **more):
    counts, members = pack_blocks(tests)
    return ScoreSums(categories=categories, counts=counts, members=members, ordered=ordered, **more)


def bits(question, *, alpha=0.01, rows=3000, sizes=None):
    exponents = [7] * sum(question.categories) if sizes is None else sizes
    return ScoreBits(question, (alpha,), rows, bytes(exponents))


# layout


def test_the_layout_of_an_answer_is_by_components_then_by_tests():
    pairs = np.array([[0, 6], [0, 1], [1, 3], [2, 4], [1, 2], [5, 3], [5, 2]])
    question = about([pairs, np.array([[1, 3, 2], [2, 4, 3]])])
    sizes = [1, 3, 12, 1, 3, 20, 1, 12, 1]
    # of regressions the response comes first: the order, the fewer categories, a number last
    assert question.pairs.tolist() == [
        [0, 6], [0, 1], [1, 3], [2, 4], [1, 2], [5, 3], [5, 2], [1, 3], [2, 4],
    ]  # fmt: skip
    assert question.sizes.tolist() == sizes
    assert [own.length for own in question.encodings] == [sum(sizes), sum(sizes), 9, 18]
    answer = np.arange(2.0 * sum(sizes) + 27)
    parts = question.read(answer)
    assert question.pack(parts).tolist() == answer.tolist()
    one = question.value_mask(np.tile(np.arange(9) == 2, 2))
    assert one.sum() == 2 * 12 + 3
    assert (parts.scores[4:16] == answer[one][:12]).all()
    assert (parts.rows[2:3] == answer[one][-2:-1]).all()
    assert (parts.sites[2:3] == answer[one][-1:]).all()


def test_which_tests_are_by_table_and_which_by_regression():
    question = about([np.array([[0, 1], [5, 1], [0, 2]]), np.array([[0, 1, 2], [0, 1, 5]])])
    assert question.by_table.tolist() == [True, True, False, False, True]
    assert set(question.models) == {2, 3}
    assert question.models[3].predictors == (2, 1)


@pytest.mark.parametrize(
    ("row", "response", "tested"),
    [
        ((0, 2), 0, 2), ((2, 0), 0, 2), ((1, 0, 2), 0, 1), ((3, 5, 2), 5, 3), ((2, 5), 5, 2),
        ((2, 4, 0), 2, 4), ((0, 6, 2), 0, 6), ((2, 3), 3, 2),
    ],
)  # fmt: skip
def test_the_response_is_an_order_then_fewer_categories_then_a_number(row, response, tested):
    model = scored_model(row, CATEGORIES, {5})
    assert (model.response, model.predictors[-1]) == (response, tested)
    assert model.predictors[:-1] == row[2:]
    assert model.ordered == (response == 5)


def test_a_table_of_too_many_cells_has_no_component_and_its_test_is_still_there():
    categories = (65, 64, 63, 2)
    question = about([np.array([[0, 1], [1, 2], [0, 3]])], categories, ())
    assert 65 * 64 > MOST_COMPONENTS >= 64 * 63
    assert question.sizes.tolist() == [0, 64 * 63, 65]
    asked = bits(question, rows=10_000)
    found = asked.predicates(3)
    assert found.n_tests == 3
    words = np.zeros((3, found.n_words), dtype=np.int64)
    words[:, 2 * (64 * 63 + 65)] = 8 * 16  # of what is not done nobody says anything
    assert plain_verdicts(asked, words).tolist() == [0.0, 0.0, 0.0]


REFUSED = [
    {"categories": (2, -1, 0)}, {"members": b"\0\0\0\0"}, {"members": b"\0\0\x09\0"},
    {"members": b"\0\0"}, {"counts": (2,)}, {"counts": (-1,)}, {"ordered": (0,)},
    {"ordered": (1, 1)}, {"ordered": (3,)}, {"max_rows": 1}, {"max_rows": 1 << 50},
    {"categories": ()}, {"categories": (2, 1 << 21, 0)},
]  # fmt: skip


@pytest.mark.parametrize("changes", REFUSED)
def test_sums_of_nothing_are_refused(changes):
    counts, members = pack_blocks([np.array([[0, 1]])])
    good = {"categories": (2, 3, 0), "counts": counts, "members": members, "ordered": (1,)}
    ScoreSums(**good)
    with pytest.raises(ValueError, match=r"\w"):
        ScoreSums(**(good | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"levels": (0.0,)}, {"levels": (1.0,)}, {"levels": (float("nan"),)}, {"levels": ()},
        {"levels": (0.01, 0.1)}, {"levels": (0.1, 0.1)}, {"levels": (1e-13,)}, {"rows": 0},
        {"rows": 1 << 40}, {"sizes": b"\3\3\3"}, {"sizes": b""}, {"sizes": bytes([41] * 5)},
        {"sizes": b"\3" * 6}, {"able": -1}, {"able": 2},
    ],
)  # fmt: skip
def test_bits_at_no_level_or_of_no_sizes_are_refused(changes):
    question = about([np.array([[0, 1]])], (2, 3), ())
    good = {"question": question, "levels": (0.01,), "rows": 100, "sizes": b"\3\4\5\6\3"}
    ScoreBits(**good)
    with pytest.raises(ValueError, match=r"\w"):
        ScoreBits(**(good | changes))


@pytest.mark.parametrize(
    "question",
    [
        about([np.array([[0, 1]]), np.array([[0, 2, 1]])]),
        bits(about([np.array([[0, 1], [2, 4]])])),
        CategorySizes((2, 0, 3), 900),
    ],
)
def test_a_question_is_read_back_and_none_with_a_field_more_or_less(question):
    packed = msgspec.msgpack.encode(question)
    assert msgspec.msgpack.decode(packed, type=type(question)) == question
    fields = msgspec.to_builtins(question, builtin_types=(bytes,))
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(fields | {"more": 1}, type(question))
    for name in fields.keys() - {"type", "max_rows", "ordered", "able"}:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({k: v for k, v in fields.items() if k != name}, type(question))
    assert question.opens_bits == isinstance(question, ScoreBits | CategorySizes)
    assert question.label
    assert question.leaves


# forms


def by_hand(asked, words, n_sites):
    """Bits of words in Python integers and fractions, from the question's own thresholds."""
    question, tests, found = asked.question, asked.components, asked.thresholds[0]
    count, total = len(tests.expected), [int(own) for own in words.sum(axis=0)]
    u, v, own, k = (
        total[a:b]
        for a, b in zip(
            (0, count, 2 * count, 2 * count + question.n_tests),
            (count, 2 * count, 2 * count + question.n_tests, len(total)),
            strict=True,
        )
    )
    a, b = site_line(found.site, n_sites)
    bits, margins = [], []
    for test in range(question.n_tests):
        mine = np.flatnonzero(tests.owner == test).tolist()
        if not mine:
            bits.append(False)
            margins.append(1.0)
            continue
        forms = []  # above 0 is dependent, and how far in shares of what is compared
        for c in mine:
            if tests.alone[c]:
                score, spread = Fraction(u[c], 4), Fraction(v[c], 16)  # z^2 V
                least = spread + Fraction(float(found.constant[test]))
                forms.append((score**2 - least, score**2 + least))
        if tests.several[test]:
            weight = [Fraction(1, int(tests.expected[c])) for c in mine]
            ratio = Fraction(float(found.quantile[test] / found.squared[test]))
            form = sum(w * Fraction(u[c], 4) ** 2 for w, c in zip(weight, mine, strict=True))
            mean = ratio * sum(w * Fraction(v[c], 16) for w, c in zip(weight, mine, strict=True))
            forms.append((form - mean, form + mean))
        line = Fraction(own[test], 16) - Fraction(a) - Fraction(b) * k[test]
        forms.append((line, Fraction(2)))
        bits.append(any(above > 0 for above, _ in forms))
        margins.append(min(abs(float(above / max(size, 1))) for above, size in forms))
    return np.array(bits), np.array(margins)


def answers(rng, question, asked, n_sites, *, scale):
    """What sites may answer: scores of about the variances that they state, of few rows too."""
    tests, done = asked.components, question.sizes > 0
    most = asked.predicates(1).highest[: len(tests.expected)] / 4  # rows of a score
    each = np.minimum(tests.expected, most / 2) / n_sites
    found = []
    for _ in range(n_sites):
        variances = each * rng.uniform(0, 0.8, len(each)) * (rng.random(len(each)) < 0.9)
        scores = rng.normal(size=len(each)) * np.sqrt(variances) * scale
        scores = np.clip(scores, (1 - most) / n_sites, (most - 1) / n_sites)
        has = (rng.random(len(done)) < 0.8) & done
        own = np.where(has, np.clip(rng.normal(0.2, 1, len(done)), -3.1, 8), 0)
        found.append(np.concatenate([scores, variances, own, np.zeros(len(done)), has]))
    return np.array(found)


TESTS = [
    np.array([[0, 6], [0, 1], [1, 3], [2, 4], [1, 2], [5, 3], [5, 2], [0, 5]]),
    np.array([[0, 6, 1], [1, 3, 2], [2, 4, 3]]),
    np.array([[1, 3, 0, 6]]),
]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([2, 3, 17]),
    st.sampled_from([1e-5, 0.01, 0.3]),
    st.sampled_from([0.5, 1.0, 2.0, 4.0]),
)
def test_bits_are_those_of_an_independent_reading_of_the_words(seed, n_sites, alpha, scale):
    rng = np.random.default_rng(seed)
    question = about(TESTS)
    sizes = rng.integers(2, 11, sum(CATEGORIES)).tolist()
    asked = bits(question, alpha=alpha, rows=3000, sizes=sizes)
    own = answers(rng, question, asked, n_sites, scale=scale)
    words = np.array([asked.words(one) for one in own])
    expected, margins = by_hand(asked, words, n_sites)
    clear = margins > 0.03  # constants are whole, and a trace's quantile and a line have steps
    np.testing.assert_array_equal(plain_verdicts(asked, words)[clear], expected[clear])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([2, 5]), st.sampled_from([0.001, 0.01, 0.1]))
def test_bits_are_the_p_values_of_the_sums_but_for_rounding(seed, n_sites, alpha):
    rng = np.random.default_rng(seed)
    question = about(TESTS)
    asked = bits(question, alpha=alpha, sizes=rng.integers(6, 11, sum(CATEGORIES)).tolist())
    own = answers(rng, question, asked, n_sites, scale=1.7)
    found = plain_verdicts(asked, np.array([asked.words(one) for one in own]))
    scores, variances, site_scores, sites, _ = question.read(own.sum(axis=0))
    p_value = p_values(asked.components, scores, variances, site_scores, sites, n_sites)
    clear = np.abs(np.log(p_value / alpha)) > 0.7
    np.testing.assert_array_equal(found[clear], (p_value <= alpha)[clear])


@pytest.mark.parametrize(("x", "y"), [(3, 3), (4, 4), (5, 4), (6, 6), (8, 8), (15, 15), (0, 6)])
@pytest.mark.parametrize("alpha", [1e-4, 0.01, 0.3])
@pytest.mark.parametrize("spread", [False, True])
def test_a_bit_turns_where_its_p_value_does_to_one_in_a_hundred(x, y, alpha, spread):
    """Of a dependence in all cells, which the trace alone sees, and of one cell."""
    question = one_shape(x, y)
    asked = bits(question, alpha=alpha, rows=1 << 17, sizes=[13] * (x + y))
    count, tests = len(asked.components.expected), asked.components
    variances = tests.expected / 2
    pattern = np.ones(count) if spread else (np.arange(count) == 0).astype(float)

    def parts(scale):
        return scale * pattern * np.sqrt(variances), variances, np.zeros(1), np.zeros(1)

    def by_bits(scale):
        words = asked.words(np.insert(np.concatenate(parts(scale)), -1, 0.0))
        return plain_verdicts(asked, words[None])[0] > 0

    def by_p(scale):
        return p_values(tests, *parts(scale), 3)[0] <= alpha

    turns = []
    for dependent in (by_bits, by_p):
        low, high = 0.0, 30.0
        assert dependent(high)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if dependent(middle) else (middle, high)
        turns.append(high)
    assert turns[0] == pytest.approx(turns[1], rel=0.01)


@pytest.mark.parametrize("n_sites", [2, 12, 200])
@pytest.mark.parametrize("alpha", [1e-6, 0.01, 0.5])
def test_words_of_extreme_answers_stay_within_the_bounds_and_nothing_wraps(n_sites, alpha):
    question = about(TESTS)
    rows = 1 << 20
    asked = bits(question, alpha=alpha, rows=rows, sizes=[20] * sum(CATEGORIES))
    found = asked.predicates(n_sites)
    bounds = [e.bound * np.ones(e.length) for e in question.encodings]
    for sign in (1.0, -1.0):
        largest = np.concatenate([sign * bounds[0], bounds[1], sign * bounds[2], *bounds[3:]])
        words = asked.words(largest)
        assert ((words >= found.lowest) & (words <= found.highest)).all()
        site = slice(2 * len(bounds[0]), 2 * len(bounds[0]) + question.n_tests)
        assert (np.abs(words[site]) == MOST_SITE_SCORE * 16).all()
        assert (n_sites * words[site] <= found.highest[site]).all()
    assert (found.widths() <= 62).all()
    assert (found.highest >= 0).all()


def one_shape(x, y, given=0):
    categories = (x, y, *(2,) * given)
    empty = [np.zeros((0, 2 + k), dtype=np.int64) for k in range(given)]
    return about([*empty, np.array([[0, 1, *range(2, 2 + given)]])], categories, ())


@pytest.mark.parametrize(("x", "y"), [(2, 2), (3, 2), (5, 8), (15, 15), (0, 0)])
@pytest.mark.parametrize("rows", [10, 1000, 1 << 20])
@pytest.mark.parametrize("rare", [False, True])
def test_widths_stay_below_62_bits(x, y, rows, rare):
    question = one_shape(x, y)
    most = max(int(math.log2(rows)) - 1, 2)
    sizes = [2 if rare and k % 2 else most for k in range(x + y)]
    for alpha in (1e-10, 0.01, 0.5):
        asked = bits(question, alpha=alpha, rows=rows, sizes=sizes)
        for n_sites in (2, 200):
            widths = asked.predicates(n_sites).widths()
            assert (widths < 62).all()


def extreme_tables(x, y, n):
    """Rows whose scores and variances are as large as any."""
    half = np.arange(n) % 2
    yield np.column_stack([half * (x - 1), half * (y - 1)])
    yield np.column_stack([half * (x - 1), (1 - half) * (y - 1)])
    yield np.column_stack([np.arange(n) % x, np.arange(n) % y])
    yield np.column_stack([np.arange(n) % x, np.arange(n) // x % y])
    yield np.column_stack([np.zeros(n), np.zeros(n)])
    rare = np.zeros((n, 2))
    rare[: n // 5] = x - 1, y - 1
    yield rare


@pytest.mark.parametrize(("x", "y"), [(2, 2), (2, 3), (4, 3), (6, 6)])
@pytest.mark.parametrize("n", [7, 60, 1000])
def test_no_sum_of_real_tables_exceeds_the_bounds_of_its_word(x, y, n):
    """With the sizes that the sites themselves state, all of them at once."""
    for rows in extreme_tables(x, y, n):
        codes = rows.astype(np.int64)
        for parts in ([codes], np.array_split(codes, 3)):
            sites = [SiteView(own, None, (x, y)) for own in parts if len(own)]
            sizes = CategorySizes((x, y), n)
            told = np.array([sizes.words(site.answer(sizes)) for site in sites])
            exponents = sizes.exponents(plain_verdicts(sizes, told))
            question = one_shape(x, y)
            asked = ScoreBits(question, (0.01,), n, exponents)
            found = asked.predicates(len(sites))
            answer = [site.answer(question) for site in sites]
            words = np.array([asked.words(own) for own in answer])
            total = words.sum(axis=0)
            assert ((total >= found.lowest) & (total <= found.highest)).all()
            # what was clipped would be less than the site's answer
            unclipped = np.array([np.ldexp(question.read(own).scores, 2) for own in answer])
            assert np.abs(words[:, : unclipped.shape[1]] - unclipped).max() <= 0.5
            p_value = p_values(
                asked.components, *question.read(np.sum(answer, axis=0))[:4], len(sites)
            )
            if not 0.002 < p_value[0] < 0.05:
                assert plain_verdicts(asked, words)[0] == (p_value[0] <= 0.01)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 400))
def test_variances_and_scores_of_any_site_lie_within_the_layout(seed, n):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, own or 2, n) for own in CATEGORIES]
    codes = np.column_stack(columns).astype(np.int64)
    if seed % 2:  # copies, whose tests have no end
        codes[:, 6], codes[:, 3] = codes[:, 0], codes[:, 1]
    values = np.full(codes.shape, np.nan)
    for v in (2, 4):
        values[:, v] = rng.standard_cauchy(n) * 10.0 ** rng.integers(-30, 30)
        codes[:, v] = -1
    if seed % 2:
        values[:, 4] = values[:, 2]
    site = SiteView(codes, values, CATEGORIES, ordered=(5,))
    question = about(TESTS, max_rows=max(n, 2))
    found = segments(question.encodings, site.answer(question))
    for encoding, part in zip(question.encodings, found, strict=True):
        assert np.isfinite(part).all()
        assert (np.abs(part) <= encoding.bound).all()
        assert encoding.signed or (part >= 0).all()
    assert (question.read(site.answer(question)).variances <= MOST_VARIANCE * n).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.3, 0.01, 1e-4]))
def test_no_word_of_a_variance_is_less_than_it(seed, alpha):
    """Of rare categories every site would round off all of it, and one row would be evidence."""
    rng = np.random.default_rng(seed)
    question = about(TESTS)
    asked = bits(question, alpha=alpha, rows=3000)
    (answer,) = answers(rng, question, asked, 1, scale=1.0)
    count = len(asked.components.expected)
    answer[count : 2 * count] *= 10.0 ** rng.uniform(-6, 0, count)
    squared = asked.thresholds[0].squared[asked.components.owner]
    exact = 16 * squared * answer[count : 2 * count]
    words = asked.words(answer)[count : 2 * count]
    assert ((words >= exact) & (words < exact + 1)).all()


@pytest.mark.parametrize("alpha", [0.5, 0.01])
def test_sites_of_few_rows_stay_within_the_bounds_however_their_variances_are_rounded(alpha):
    pair = np.array([[0, 0], [1, 1]])
    sites = [SiteView(pair, None, (2, 2)) for _ in range(200)]
    question = one_shape(2, 2)
    asked = ScoreBits(question, (alpha,), 400, bytes([7] * 4))
    words = np.array([asked.words(site.answer(question)) for site in sites])
    assert plain_verdicts(asked, words).tolist() == [1.0]


# sizes of categories


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3000), min_size=5, max_size=5), st.integers(2, 6))
def test_sizes_are_powers_of_two_not_above_the_count_from_eight_on(counts, n_sites):
    rows = max(*counts, 1) + 5
    asked = CategorySizes((2, 0, 3), rows)
    rng = np.random.default_rng(sum(counts))
    parts = np.array([rng.multinomial(own, np.full(n_sites, 1 / n_sites)) for own in counts]).T
    words = np.array([asked.words(own.astype(float)) for own in parts])
    assert (words == parts).all()
    found = np.frombuffer(asked.exponents(plain_verdicts(asked, words)), dtype=np.uint8)
    for own, exponent in zip(counts, found.tolist(), strict=True):
        assert exponent == 2 if own < 8 else 2**exponent <= own < 2 ** (exponent + 1)
    assert asked.predicates(n_sites).n_comparisons == sum(e.length for e in asked.encodings)


@pytest.mark.parametrize("rows", [0, 1 << 40, -5])
def test_sizes_of_no_rows_are_refused(rows):
    with pytest.raises(ValueError, match=r"rows"):
        CategorySizes((2, 3), rows)


def test_a_lying_site_moves_no_word_beyond_what_it_may_say():
    question = about(TESTS)
    asked = bits(question)
    own = np.concatenate([np.full(e.length, 1e9) for e in question.encodings])
    lied, found = asked.words(own), asked.predicates(3)
    one = ScoreBits(question, (0.01,), 3000, asked.sizes).predicates(1)
    assert (lied <= one.highest).all()
    assert (asked.words(-own) >= one.lowest).all()
    assert found.n_words == len(lied)
    assert Thresholds.at(0.01, asked.components).squared.tolist() == (
        asked.thresholds[0].squared.tolist()
    )
