"""What is asked of score sums: layout, refusals, and forms by an independent slow reference."""

from fractions import Fraction

import numpy as np
import pytest
from driving import plain_verdicts
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.questions.encodings import pack_blocks, segments
from cipherdag.questions.scores.score_bits import RaoBits
from cipherdag.questions.scores.score_sums import (
    MOST_COMPONENTS,
    MOST_SCORE,
    MOST_SITE_SCORE,
    RaoSums,
)
from cipherdag.questions.scores.score_test import (
    form_level,
    form_threshold,
    p_values,
    rare_constant,
    site_line,
    site_threshold,
)
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.statistics.regression_models import scored_model

CATEGORIES = (2, 3, 0, 4, 0, 5, 2)
"""Variable 5 is in an order, 2 and 4 are numbers."""


def about(tests, categories=CATEGORIES, ordered=(5,), **more):
    counts, members = pack_blocks(tests)
    fields = {"n_rows": 3000, "ordered": ordered} | more
    return RaoSums(categories=categories, counts=counts, members=members, **fields)


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
    assert question.several.tolist() == [1, 2, 4, 5, 7]
    assert [own.length for own in question.encodings] == [sum(sizes), 9, 5, 9, 18]
    answer = np.arange(sum(sizes) + 41.0)
    parts = question.read(answer)
    assert question.pack(parts).tolist() == answer.tolist()
    one = question.value_mask(np.tile(np.arange(9) == 2, 2))
    assert one.sum() == 12 + 5
    assert (parts.scores[4:16] == answer[one][:12]).all()
    assert (answer[one][12:14] == [parts.means[2], parts.spreads[1]]).all()
    assert question.spreads(parts)[[2, 3]].tolist() == [parts.spreads[1], parts.means[3]]
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


def test_a_table_of_too_many_cells_has_no_component_but_a_test():
    categories = (65, 64, 63, 2)
    question = about([np.array([[0, 1], [1, 2], [0, 3]])], categories, ())
    assert 65 * 64 > MOST_COMPONENTS >= 64 * 63
    assert question.sizes.tolist() == [0, 64 * 63, 65]
    asked = RaoBits(question, (0.01,))
    found = asked.predicates(3)
    assert found.n_tests == 3
    words = np.zeros((3, found.n_words), dtype=np.int64)
    words[:, 64 * 63 + 65 + 3] = 8 * 16  # of what is not done nobody says anything
    assert plain_verdicts(asked, words).tolist() == [0.0, 0.0, 0.0]


REFUSED = [
    {"categories": (2, -1, 0)}, {"members": b"\0\0\0\0"}, {"members": b"\0\0\x09\0"},
    {"members": b"\0\0"}, {"counts": (2,)}, {"counts": (-1,)}, {"ordered": (0,)},
    {"ordered": (1, 1)}, {"ordered": (3,)}, {"max_rows": 1}, {"max_rows": 1 << 50},
    {"categories": ()}, {"categories": (2, 1 << 21, 0)}, {"n_rows": 0}, {"n_rows": 1 << 32},
]  # fmt: skip


@pytest.mark.parametrize("changes", REFUSED)
def test_sums_of_nothing_are_refused(changes):
    counts, members = pack_blocks([np.array([[0, 1]])])
    good = {"categories": (2, 3, 0), "counts": counts, "members": members, "ordered": (1,)}
    good |= {"n_rows": 100}
    RaoSums(**good)
    with pytest.raises(ValueError, match=r"\w"):
        RaoSums(**(good | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"levels": (0.0,)}, {"levels": (1.0,)}, {"levels": (float("nan"),)}, {"levels": ()},
        {"levels": (0.01, 0.1)}, {"levels": (0.1, 0.1)}, {"levels": (1e-13,)}, {"able": -1},
        {"able": 2},
    ],
)  # fmt: skip
def test_bits_at_no_level_or_of_tests_that_are_not_there_are_refused(changes):
    question = about([np.array([[0, 1]])], (2, 3), ())
    good = {"question": question, "levels": (0.01,)}
    RaoBits(**good)
    with pytest.raises(ValueError, match=r"\w"):
        RaoBits(**(good | changes))


# forms


def by_hand(asked, words, n_sites):
    """Bits of words in Python integers and fractions, from the thresholds of their level."""
    question, alpha = asked.question, asked.levels[0]
    total, count = [int(word) for word in words.sum(axis=0)], int(question.sizes.sum())
    u, parts, own, k = np.split(
        np.array(total, dtype=object), count + question.n_tests * np.arange(3)
    )
    a, b = site_line(site_threshold(alpha), n_sites)
    bits, margins = [], []
    for test, size in enumerate(question.sizes.tolist()):
        mine = np.flatnonzero(question.owner == test).tolist()
        if not mine:
            bits.append(False)
            margins.append(1.0)
            continue
        grid = 4 if size == 1 else 32  # steps of a row, or of a weighted score
        form = sum(Fraction(u[c], grid) ** 2 for c in mine)
        least = Fraction(parts[test], grid**2)
        if size == 1:
            least += Fraction(rare_constant(form_level(alpha)))
        else:
            noise = n_sites / 12 / 32**2  # the variance that rounding adds to each
            mean, spread = np.array([[size * noise], [size**0.5 * noise]])
            least += Fraction(float(form_threshold(mean, spread, form_level(alpha))[0]))
        line = Fraction(own[test], 16) - Fraction(a) - Fraction(b) * k[test]
        forms = (form - least, form + least), (line, Fraction(2))
        bits.append(any(above > 0 for above, _ in forms))
        margins.append(min(abs(float(above / max(size, 1))) for above, size in forms))
    return np.array(bits), np.array(margins)


def answers(rng, question, n_sites, *, scale):
    """What sites may answer: scores of about the variances that they state, of few rows too."""
    sizes, done = question.sizes, question.sizes > 0
    each = np.where(sizes == 1, 40.0, 0.9)[question.owner] / n_sites
    ratio = rng.uniform(0.2, 1.5, len(sizes))  # where it differs by site, bits are more careful
    found = []
    for _ in range(n_sites):
        variances = each * rng.uniform(0, 1, len(each)) * (rng.random(len(each)) < 0.9)
        scores = rng.normal(size=len(each)) * np.sqrt(variances) * scale
        means = np.bincount(question.owner, weights=variances, minlength=len(sizes))
        spreads = (means * ratio)[question.several]
        has = (rng.random(len(done)) < 0.8) & done
        own = np.where(has, np.clip(rng.normal(0.2, 1, len(done)), -3.1, 8), 0)
        found.append(np.concatenate([scores, means, spreads, own, np.zeros(len(done)), has]))
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
    asked = RaoBits(question, (alpha,))
    own = answers(rng, question, n_sites, scale=scale)
    words = np.array([asked.words(one) for one in own])
    expected, margins = by_hand(asked, words, n_sites)
    clear = margins > 0.01  # constants are whole, and a line has steps
    np.testing.assert_array_equal(plain_verdicts(asked, words)[clear], expected[clear])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([2, 5]), st.sampled_from([0.001, 0.01, 0.1]))
def test_bits_are_the_p_values_of_the_sums_but_for_rounding(seed, n_sites, alpha):
    rng = np.random.default_rng(seed)
    question = about(TESTS)
    asked = RaoBits(question, (alpha,))
    own = answers(rng, question, n_sites, scale=1.7)
    found = plain_verdicts(asked, np.array([asked.words(one) for one in own]))
    p_value = p_of(question, own.sum(axis=0), n_sites)
    clear = np.abs(np.log(p_value / alpha)) > 0.7
    np.testing.assert_array_equal(found[clear], (p_value <= alpha)[clear])


def p_of(question, answer, n_sites):
    sums = question.read(answer)
    return p_values(
        question.sizes, sums.scores, sums.means, question.spreads(sums), sums.site_scores,
        sums.sites, n_sites,
    )  # fmt: skip


@pytest.mark.parametrize(("x", "y"), [(2, 2), (3, 3), (5, 4), (8, 8), (15, 15), (0, 6)])
@pytest.mark.parametrize("alpha", [1e-4, 0.01, 0.3])
@pytest.mark.parametrize("spread", [False, True])
def test_a_bit_turns_where_its_p_value_does_to_one_in_a_hundred(x, y, alpha, spread):
    """Of a dependence in all cells, and of one in one cell."""
    question = one_shape(x, y, n_rows=1 << 17)
    asked, count = RaoBits(question, (alpha,)), int(question.sizes.sum())
    variances = np.full(count, 0.9 if count > 1 else 5000.0)
    pattern = np.ones(count) if spread else (np.arange(count) == 0).astype(float)
    mean = variances.sum()
    moments = [mean] if count == 1 else [mean, np.sqrt((variances**2).sum())]

    def answer(scale):
        return np.concatenate([scale * pattern * np.sqrt(variances), moments, np.zeros(3)])

    def by_bits(scale):
        return plain_verdicts(asked, asked.words(answer(scale))[None])[0] > 0

    def by_p(scale):
        return p_of(question, answer(scale), 1)[0] <= alpha

    turns = []
    for dependent in (by_bits, by_p):
        low, high = 0.0, 60.0
        assert dependent(high)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if dependent(middle) else (middle, high)
        turns.append(high)
    assert turns[0] == pytest.approx(turns[1], rel=0.015)


@pytest.mark.parametrize("n_sites", [2, 12, 200])
@pytest.mark.parametrize("alpha", [1e-6, 0.01, 0.5])
def test_extreme_answers_stay_within_the_bounds_and_nothing_wraps(n_sites, alpha):
    question = about(TESTS, n_rows=1 << 20)
    asked = RaoBits(question, (alpha,))
    found = asked.predicates(n_sites)
    bounds = [e.bound * np.ones(e.length) for e in question.encodings]
    for sign in (1.0, -1.0):
        largest = [sign * bounds[0], bounds[1], bounds[2], sign * bounds[3], bounds[4]]
        words = asked.words(np.concatenate(largest))
        assert ((words >= found.lowest) & (words <= found.highest)).all()
        start = len(bounds[0]) + question.n_tests
        site = slice(start, start + question.n_tests)
        assert (np.abs(words[site]) == MOST_SITE_SCORE * 16).all()
        assert (n_sites * words[site] <= found.highest[site]).all()
    assert (found.widths() <= 62).all()
    assert (found.highest >= 0).all()


def one_shape(x, y, **more):
    return about([np.array([[0, 1]])], (x, y), (), **more)


@pytest.mark.parametrize(("x", "y"), [(2, 2), (3, 2), (5, 8), (64, 64), (0, 0), (0, 4)])
@pytest.mark.parametrize("rows", [1, 10, 1000, 1 << 20, 1 << 30, (1 << 32) - 1])
def test_widths_stay_below_62_bits(x, y, rows):
    question = one_shape(x, y, n_rows=rows)
    for alpha in (1e-12, 0.01, 0.5):
        for n_sites in (2, 200):
            widths = RaoBits(question, (alpha,)).predicates(n_sites).widths()
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
    for rows in extreme_tables(x, y, n):
        codes = rows.astype(np.int64)
        for parts in ([codes], np.array_split(codes, 3)):
            sites = [SiteView(own, None, (x, y)) for own in parts if len(own)]
            question = one_shape(x, y, n_rows=n)
            asked = RaoBits(question, (0.01,))
            found = asked.predicates(len(sites))
            answer = [site.answer(question) for site in sites]
            words = np.array([asked.words(own) for own in answer])
            total = words.sum(axis=0)
            assert ((total >= found.lowest) & (total <= found.highest)).all()
            # what was clipped would be less than the site's answer
            steps = 4 if question.sizes[0] == 1 else 32
            unclipped = np.array([question.read(own).scores for own in answer]) * steps
            assert np.abs(words[:, : unclipped.shape[1]] - unclipped).max() <= 0.5
            p_value = p_of(question, np.sum(answer, axis=0), len(sites))
            if not 0.002 < p_value[0] < 0.05:
                assert plain_verdicts(asked, words)[0] == (p_value[0] <= 0.01)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 400))
def test_answers_of_any_site_lie_within_the_layout_and_the_bounds(seed, n):
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
    question = about(TESTS, max_rows=max(n, 2), n_rows=n)
    answer = site.answer(question)
    for encoding, part in zip(
        question.encodings, segments(question.encodings, answer), strict=True
    ):
        assert np.isfinite(part).all()
        assert (np.abs(part) <= encoding.bound).all()
        assert encoding.signed or (part >= 0).all()
    found = question.read(answer)
    several = question.sizes > 1
    assert (np.abs(found.scores[several[question.owner]]) <= MOST_SCORE * n**0.5 + 1e-9).all()
    assert (found.means[several] <= question.sizes[several] * n**0.5).all()
    # no row counts for more than 1 in a form
    limit = found.means[several] ** 2 + found.means[several] / 2
    assert (found.spreads**2 <= limit * (1 + 1e-9)).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.3, 0.01, 1e-4]))
def test_no_word_of_a_threshold_is_less_than_it(seed, alpha):
    """Of rare categories every site would round off all of it, and one row would be evidence."""
    rng = np.random.default_rng(seed)
    question = about(TESTS)
    (answer,) = answers(rng, question, 1, scale=1.0)
    sums = question.read(answer)
    shrunk = 10.0 ** rng.uniform(-6, 0, question.n_tests)
    sums = sums._replace(means=sums.means * shrunk, spreads=sums.spreads * shrunk[question.several])
    steps = np.where(question.sizes > 1, 32, 4) ** 2
    exact = steps * form_threshold(sums.means, question.spreads(sums), form_level(alpha))
    count = int(question.sizes.sum())
    words = RaoBits(question, (alpha,)).words(question.pack(sums))
    words = words[count : count + question.n_tests]
    assert ((words >= exact) & (words < exact + 1)).all()


@pytest.mark.parametrize("alpha", [0.5, 0.01])
def test_sites_of_few_rows_stay_within_the_bounds_however_rounded(alpha):
    pair = np.array([[0, 0], [1, 1]])
    sites = [SiteView(pair, None, (2, 2)) for _ in range(200)]
    question = one_shape(2, 2, n_rows=400)
    asked = RaoBits(question, (alpha,))
    words = np.array([asked.words(site.answer(question)) for site in sites])
    assert plain_verdicts(asked, words).tolist() == [1.0]


def test_a_lying_site_moves_no_word_beyond_what_it_may_say():
    question = about(TESTS)
    asked = RaoBits(question, (0.01,))
    own = np.concatenate([np.full(e.length, 1e9) for e in question.encodings])
    lied, found, one = asked.words(own), asked.predicates(3), asked.predicates(1)
    assert (lied <= one.highest).all()
    assert (asked.words(-own) >= one.lowest).all()
    assert found.n_words == len(lied)
