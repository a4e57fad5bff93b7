"""A site's check of a fit: its sums, its level, and what it finds."""

import numpy as np
import pytest

from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.scores.score_sums import Misfits
from cipherdag.questions.scores.score_test import p_values
from cipherdag.sites.answers.site_view import SiteView

LEVEL = 0.05


def asked(checks, categories, n_rows):
    widest = max(map(len, checks))
    blocks = [[c for c in checks if len(c) == k] for k in range(2, widest + 1)]
    blocks = [np.array(b, dtype=np.int64).reshape(-1, k) for k, b in enumerate(blocks, start=2)]
    counts, members = pack_blocks(blocks)
    return Misfits(categories, counts, members, n_rows, max_rows=1 << 15)


def view(rows, categories, **more):
    numbers = np.array(categories) == 0
    codes = np.where(numbers, -1, np.nan_to_num(rows, nan=-1)).astype(np.int64)
    values = np.where(numbers, rows, np.nan)
    return SiteView(None if numbers.all() else codes, values, categories, ordered=(), **more)


def answers(sites, checks, categories):
    question = asked(checks, categories, sum(map(len, sites)))
    return question, [question.read(view(rows, categories).answer(question)) for rows in sites]


def p_of(sites, checks, categories):
    """The p-values of checks over all sites."""
    question, found = answers(sites, checks, categories)
    total = [sum(parts) for parts in zip(*found, strict=True)]
    return p_values(question.sizes, total[0], total[1], total[2], total[3], total[4], len(sites))


def test_scores_are_residuals_summed_in_bins_less_their_fit():
    # two dozen rows afford a line alone, and no residual is clipped
    rng = np.random.default_rng(1)
    s = np.sort(rng.normal(size=24))
    y = 0.5 * s + rng.uniform(-1.0, 1.0, size=24)
    rows = np.column_stack([y, s])
    question, (found,) = answers([rows], [(0, 1)], (0, 0))
    assert question.sizes.tolist() == [question.bins] == [8]
    line = np.column_stack([np.ones(24), s])

    def beyond(columns):
        return columns - line @ np.linalg.inv(line.T @ line) @ (line.T @ columns)

    left = beyond(y)
    left = left / np.sqrt(left @ left / 22.0)
    left = left / np.sqrt(left @ left / 22.0)
    bins = np.zeros((24, 8))
    bins[np.arange(24), (s[:, None] > np.quantile(s, np.arange(1, 8) / 8)).sum(axis=1)] = 1.0
    terms = beyond(bins) * left[:, None]
    covariance = terms.T @ terms * 24.0 / 22.0
    share = 22.0 / 24.0
    scale = 1.0 / np.sqrt(np.maximum(covariance.diagonal() / share, 1.0))
    assert found.scores == pytest.approx(scale * terms.sum(axis=0))
    weighted = covariance * np.outer(scale, scale)
    assert found.means == pytest.approx([np.trace(weighted)])
    assert found.spreads == pytest.approx([np.linalg.norm(weighted)])
    assert (found.rows, found.sites) == ([22.0], [1.0])


def test_cells_with_categories_and_numbers_are_counted():
    question = asked([(0, 1), (0, 1, 2, 3)], (0, 0, 0, 4), 600)
    # ten bins; two by two cells with a number, two by three with four categories
    assert question.sizes.tolist() == [10, 10 + 4 + 6]


@pytest.mark.parametrize("tails", ["normal", "heavy", "spread by S"])
def test_linear_numbers_are_named_about_as_often_as_the_level(tails):
    rng = np.random.default_rng([7, len(tails)])
    wrong, runs = 0, 120
    for _ in range(runs):
        sites = []
        for rows in (150, 60, 60):
            s = rng.standard_t(3, (rows, 2)) if tails == "heavy" else rng.normal(size=(rows, 2))
            noise = rng.standard_t(3, rows) if tails == "heavy" else rng.normal(size=rows)
            noise = noise * np.exp(0.5 * s[:, 0]) if tails == "spread by S" else noise
            sites.append(np.column_stack([s.sum(axis=1) + noise, s]))
        wrong += int((p_of(sites, [(0, 1, 2)], (0, 0, 0)) <= LEVEL)[0])
    # with a chance of .05, 13 of 120 or more have one of .006
    assert wrong < 13


@pytest.mark.parametrize("world", ["step", "product", "product with a category"])
def test_steps_and_products_are_found(world):
    rng = np.random.default_rng([9, len(world)])
    found = 0
    for _ in range(12):
        sites = []
        for rows in (50,) * 10:
            s, t = rng.normal(size=(2, rows))
            group = rng.integers(3, size=rows)
            curve = {"step": s > 0.3, "product": s * t, "product with a category": s * (group - 1)}
            y = 1.2 * curve[world] + 0.4 * s + 0.7 * rng.normal(size=rows)
            sites.append(np.column_stack([y, s, t, group]))
        given = (3,) if "category" in world else (2,)
        found += int((p_of(sites, [(0, 1, *given)], (0, 0, 0, 3)) <= LEVEL)[0])
    assert found >= 10


def test_a_site_alone_is_found_where_curves_lie_elsewhere():
    # a step up at one site and down at the other cancel in the sum
    rng = np.random.default_rng(4)
    sites = []
    for sign in (1.0, -1.0):
        s = rng.normal(size=400)
        y = sign * 1.5 * (s > 0.2) + 0.5 * rng.normal(size=400)
        sites.append(np.column_stack([y, s]))
    assert (p_of(sites, [(0, 1)], (0, 0)) <= LEVEL).all()


def test_the_order_of_rows_moves_last_digits_alone():
    rng = np.random.default_rng(7)
    for n_rows in (192, 320, 480, 507):
        rows = rng.normal(size=(n_rows, 3))
        rows[:, 0] += rows[:, 1] + rng.exponential(size=n_rows)
        views = [[order] for order in (rows, rows[::-1], rng.permutation(rows))]
        scores = [answers(each, [(0, 1, 2)], (0, 0, 0))[1][0].site_scores for each in views]
        assert scores[0] == pytest.approx(scores[1], abs=1e-9)
        assert scores[0] == pytest.approx(scores[2], abs=1e-9)


def test_missing_constant_and_few_rows_give_no_check():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(80, 3))
    rows[:, 2] = np.nan
    for site in (rows, rows[:9, :], np.zeros((80, 3))):
        _, (found,) = answers([site], [(0, 1, 2)], (0, 0, 0))
        assert not any(part.any() for part in found)


def test_categories_are_not_checked_along():
    with pytest.raises(ValueError, match="numbers along numbers"):
        asked([(0, 1)], (0, 3), 80)
