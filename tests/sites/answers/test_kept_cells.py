"""Cells of tests that a site was asked about before: the same answers, and none counted twice."""

from __future__ import annotations

import numpy as np
import pytest
from cipherdag.questions.stratified import StratifiedTables, TableCells
from cipherdag.sites.answers.kept_cells import KeptCells
from evidence_sites import discrete_codes, discrete_site

from cipherdag.questions.encodings import pack_blocks
from cipherdag.sites.answers import kept_cells

CATEGORIES = (2, 3, 2, 4, 3)


def some(rng, share):
    """Some tests given nothing and given one variable, in both directions and any order."""
    pairs = [(x, y) for x in range(5) for y in range(5) if x != y]
    given = [(x, y, s) for x, y in pairs for s in range(5) if s not in (x, y)]
    both = (np.array(pairs), np.array(given))
    return [rng.permutation(rows[rng.random(len(rows)) < share]) for rows in both]


def about(blocks, categories=CATEGORIES, *, differences=True):
    counts, members = pack_blocks(blocks)
    tables = StratifiedTables(
        categories=categories, counts=counts, members=members, max_rows=1 << 12
    )
    return TableCells(tables=tables, differences=differences)


def site(seed=0, min_cell_size=11):
    rng = np.random.default_rng(seed)
    codes = discrete_codes(rng, 400, CATEGORIES)
    return discrete_site(codes, CATEGORIES, min_cell_size=min_cell_size)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("most", [0, 300, 1 << 21])
def test_answers_are_those_of_a_site_that_was_asked_nothing_before(monkeypatch, most, seed):
    monkeypatch.setattr(kept_cells, "MOST_VALUES", most)
    rng = np.random.default_rng(seed)
    asked = site()
    for share in (0.4, 0.4, 0.05, 0.0, 1.0, 0.3):
        question = about(some(rng, share), differences=bool(rng.integers(2)))
        for own in (question, question.with_differences()):
            assert (asked.answer(own) == site().answer(own)).all()


def test_a_test_is_asked_once():
    rng = np.random.default_rng(1)
    asked = []

    def ask(question):
        asked.append({tuple(row) for rows in question.tables.rows() for row in rows.tolist()})
        return site().answer(question)

    kept, known = KeptCells(ask), set()
    for share in (0.3, 0.5, 1.0, 0.5):
        blocks = some(rng, share)
        new = {tuple(row) for rows in blocks for row in rows.tolist()} - known
        before = len(asked)
        for _ in range(2):
            kept.answer(about(blocks))
        assert asked[before:] == [new] * bool(new)
        known |= new


def test_the_oldest_answers_are_forgotten(monkeypatch):
    asked = []

    def ask(question):
        asked.append(question)
        return site().answer(question)

    first, second = (about([np.array([pair])]) for pair in ((0, 1), (2, 4)))
    monkeypatch.setattr(kept_cells, "MOST_VALUES", len(site().answer(second)))
    kept = KeptCells(ask)
    for question in (first, second, second, first):
        kept.answer(question)
    assert asked == [first, second, first]


def test_of_other_categories_nothing_is_taken():
    asked = []
    kept = KeptCells(lambda question: asked.append(question) or np.zeros(9))
    for categories in ((2, 2), (2, 3)):
        kept.answer(about([np.array([[0, 1]])], categories))
    assert len(asked) == 2
