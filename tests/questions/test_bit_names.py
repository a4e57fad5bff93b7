"""A bit has the same name in every question that asks for it, and what is left gives it again."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.questions.encodings import pack_blocks, pack_integers
from cipherdag.questions.question import Bundle, Resampled
from cipherdag.questions.scores.bit_names import NAME_BYTES, bit_names, bits_by_pair, remaining
from cipherdag.questions.scores.likelihoods import LogLikelihoods, ScoreComparisons
from cipherdag.questions.scores.score_bits import RaoBits
from cipherdag.questions.scores.score_sums import Misfits, RaoSums
from cipherdag.questions.verdicts import EvidenceVerdicts

CATEGORIES = (2, 3, 0, 2, 0)
BLOCKS = [
    np.array([[0, 1], [0, 3], [2, 4], [1, 2]]),
    np.array([[0, 1, 3], [2, 4, 0]]),
    np.array([[1, 4, 0, 2]]),
]


def about(blocks, n_rows=400):
    counts, members = pack_blocks(blocks)
    return RaoSums(CATEGORIES, counts, members, n_rows)


def named(question):
    names = bit_names(question)
    return [names[at : at + NAME_BYTES] for at in range(0, len(names), NAME_BYTES)]


def bits_of(question, vectors):
    """The bits of a question in the clear, from what every site would answer."""
    bits = []
    for part in question.parts:
        inner = part.question if isinstance(part, Resampled) else part
        predicates = inner.predicates(len(vectors))
        words = sum(inner.words(answer(inner.question)) for answer in vectors)
        forms = predicates.constants.copy()
        for i, j, k, c in predicates.quadratic.tolist():
            forms[i] += c * words[j] * words[k]
        for i, j, c in predicates.linear.tolist():
            forms[i] += c * words[j]
        bits += np.logical_or.reduceat(forms > 0, predicates.starts).tolist()
    return np.array(bits)


def site(seed):
    """Scores of tests that depend on the test alone, whichever question it stands in."""

    def answer(question):
        parts = {"scores": [], "means": [], "spreads": [], "site": [], "sites": [], "rows": []}
        for rows in question.rows():
            for row in rows:
                rng = np.random.default_rng([seed, *row])
                parts["means"].append(rng.uniform(0, 40) * (rng.random() < 0.8))
                parts["site"].append(rng.normal(0, 2))
                parts["rows"].append(1.0)
        for test, size in enumerate(question.sizes):
            row = [row for rows in question.rows() for row in rows][test]
            rng = np.random.default_rng([seed, 7, *row])
            parts["scores"] += rng.normal(0, 20, size).tolist()
            if size > 1:
                parts["spreads"].append(rng.uniform(1, 9))
        order = (parts[key] for key in ("scores", "means", "spreads", "site", "rows", "rows"))
        return np.concatenate([np.array(each, dtype=float) for each in order])

    return answer


QUESTION = RaoBits(about(BLOCKS), (0.05, 0.01, 0.001), able=4)


@given(st.lists(st.booleans(), min_size=QUESTION.n_values, max_size=QUESTION.n_values))
def test_known_bits_and_the_rest_are_the_whole(known):
    known, sites = np.array(known), [site(seed) for seed in range(3)]
    whole = bits_of(QUESTION, sites)
    rest, places = remaining(QUESTION, known)
    assert {*places.tolist()} == {*np.flatnonzero(~known).tolist()}
    if rest is not None:
        assert [named(QUESTION)[place] for place in places] == named(rest)
        assert bits_of(rest, sites).tolist() == whole[places].tolist()


def test_a_bit_has_one_name_in_other_company_and_order():
    turned = [rows[::-1, [1, 0, *range(rows.shape[1] - 1, 1, -1)]] for rows in BLOCKS]
    other = RaoBits(about(turned, n_rows=50), (0.01,), able=0)
    assert {*named(other)} < {*named(QUESTION)}
    assert not {*named(msgspec.structs.replace(other, levels=(0.02,)))} & {*named(QUESTION)}


def combined(blocks, combination, **more):
    empty = CombinedEvidence.over_sites(CITestSpec(alpha=0.05), combination, 5, 1 << 20)
    counts, members = pack_blocks(blocks)
    inner = msgspec.structs.replace(empty, counts=counts, members=members)
    return EvidenceVerdicts(inner, 10, 40, **more)


@pytest.mark.parametrize(
    ("combination", "more"), [("weighted_p", {"both": True}), ("fisher", {"critical": (5, 9, 12)})]
)
def test_bits_of_combined_tests_have_one_name_in_other_company(combination, more):
    whole, some = (
        named(
            combined(
                [rows[at:, [1, 0, *range(2, rows.shape[1])]] for rows in BLOCKS],
                combination,
                **more,
            )
        )
        for at in (0, 1)
    )
    assert {*some} < {*whole}
    assert len({*whole}) == len(whole)
    other = combined(BLOCKS, combination, **more)
    alpha = msgspec.structs.replace(other.question.test, alpha=0.01)
    other = msgspec.structs.replace(
        other, question=msgspec.structs.replace(other.question, test=alpha)
    )
    assert not {*named(other)} & {*whole}


def comparisons(chosen, pairs):
    """Some of four comparisons of sums over five columns and some pairs of them."""
    counts, members = pack_blocks([np.arange(5)[:, None], np.array(pairs)])
    at = {tuple(pair): 5 + number for number, pair in enumerate(pairs)}
    every = [[(0, 2), (at[1, 2], -1)], [(1, 1)], [(2, 1), (3, -1)], [(at[1, 2], 1)]]
    terms = [(number, *term) for number, which in enumerate(chosen) for term in every[which]]
    constants = np.array([7, 0, -3, 0])[list(chosen)]
    packed = pack_integers(np.array(terms)), pack_integers(constants)
    return ScoreComparisons(LogLikelihoods(5, counts, members), 4, 1000, *packed)


def test_a_comparison_of_scores_is_named_by_what_it_compares():
    whole = named(comparisons([0, 1, 2, 3], [[0, 1], [1, 2]]))
    assert named(comparisons([3, 0], [[1, 2], [3, 4]])) == [whole[3], whole[0]]
    assert len({*whole}) == 4


def test_resamples_and_bundles_have_names_of_their_own():
    drawn = [Resampled(QUESTION, 1, 5), Resampled(QUESTION, 2, 5), Resampled(QUESTION, 1, 6)]
    names = named(Bundle((QUESTION, *drawn)))
    assert len(set(names)) == len(names) == 4 * QUESTION.n_values
    known = np.zeros(4 * QUESTION.n_values, dtype=bool)
    known[: QUESTION.n_values + 3] = True
    rest, places = remaining(Bundle((QUESTION, *drawn)), known)
    assert [names[place] for place in places] == named(rest)
    assert all(isinstance(part, Resampled) for part in rest.parts)


def test_a_bit_is_about_all_pairs_of_its_variables():
    counts = bits_by_pair(QUESTION, len(CATEGORIES))
    assert counts[0, 1] == 3 + 3 + 3 + 1
    assert counts[2, 4] == 3 + 3 + 3 + 1
    assert counts[0, 4] == 3 + 3
    assert counts[3, 4] == 0
    assert (np.tril(counts) == 0).all()
    drawn = Bundle((QUESTION, Resampled(QUESTION, 1, 5)))
    assert (bits_by_pair(drawn, len(CATEGORIES)) == 2 * counts).all()


def test_checks_of_fits_are_no_tests_and_have_a_direction():
    pair = np.array([[0, 1], [1, 0]])
    counts, members = pack_blocks([pair])
    fields = {"categories": (0, 0), "counts": counts, "members": members, "n_rows": 90}
    names = bit_names(RaoBits(Misfits(**fields), (0.05,)))
    tests = bit_names(RaoBits(RaoSums(**fields), (0.05,)))
    first, second = names[:NAME_BYTES], names[NAME_BYTES:]
    assert first != second
    assert tests[:NAME_BYTES] == tests[NAME_BYTES:]
    assert tests[:NAME_BYTES] not in (first, second)
