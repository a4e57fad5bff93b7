"""Sentences about what left a site say no more than is so."""

import pytest

from cipherdag.pages.numerals import counted
from cipherdag.questions import ci_tests
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.question import Bundle
from cipherdag.questions.threshold import ContributorCounts
from cipherdag.results.sentences import (
    EACH,
    PHRASES,
    CountedReleases,
    release_lines,
    site_sentences,
)

MOST_WORDS = 35


def told(kind, protection="masking"):
    own = CountedReleases(kind=kind, protection=protection, sites=6, values=3, bytes=900, round=2)
    return next(iter(site_sentences([own])))


@pytest.mark.parametrize("kind", ["covered+site-differences", "combined-evidence+covered"])
def test_what_is_opened_of_enough_sites_is_not_said_to_be_of_all(kind):
    assert "only as a sum over 6 sites; a site without enough rows for a part adds nothing" in told(
        kind
    )


@pytest.mark.parametrize("kind", ["columns", "column-kinds", "moments"])
def test_what_every_site_adds_to_is(kind):
    assert told(kind).endswith("only as a sum over 6 sites.")


def test_where_sites_are_counted_first_it_says_so():
    assert told("contributors+site-differences").endswith("of this only whether it has rows.")


def test_questions_in_a_bundle_are_named_one_by_one():
    alone, located = Columns(n_variables=2, marks=False), Columns(n_variables=2)
    counted = ContributorCounts(question=located)
    assert Bundle(parts=(alone, counted)).kind == "column-kinds+columns+contributors"


def test_locations_of_numbers_are_named_only_where_they_leave():
    assert "where numbers lie" in told("columns")
    assert "where numbers lie" not in told("column-kinds")


def test_the_last_release_is_of_the_end_of_a_run():
    last = CountedReleases("closed", "masking", 3, 0, 50, 0)
    assert next(iter(site_sentences([last]))).startswith("end: ")


@pytest.mark.parametrize("kind", PHRASES)
def test_no_sentence_is_long(kind):
    sentences = told(kind).split(". ")
    assert all(len(sentence.split()) <= MOST_WORDS for sentence in sentences)


def released(kind, sent, number=1):
    return CountedReleases(kind, "masking", 3, 7, sent, number)


def test_equal_releases_of_sites_are_one_line_with_a_range_of_bytes():
    lines = release_lines(
        {
            "north": [released("columns", 900), released("closed", 50, 0)],
            "south": [released("columns", 700), released("closed", 50, 0)],
        }
    )
    assert lines[0] == f"What left 'north', 'south' ({EACH.format(2)}):"
    assert "(7 values, 700 B to 900 B)" in lines[1]
    assert len(lines) == 3


def test_what_left_some_sites_stands_after_what_left_all():
    also = released("opened-sum", 80)
    lines = release_lines(
        {
            "north": [released("columns", 900), also],
            "south": [released("columns", 900)],
            "west": [released("columns", 900), also],
        }
    )
    assert [line for line in lines if line.endswith(":")] == [
        f"What left 'north', 'south', 'west' ({EACH.format(3)}):",
        f"Also left 'north', 'west' ({EACH.format(2)}):",
    ]


def test_what_left_one_site_or_nothing_in_common_is_said_of_each():
    assert release_lines({"north": [released("columns", 9)]})[0] == "What left 'north':"
    apart = {"north": [released("columns", 9)], "south": [released("moments", 9)]}
    assert [line for line in release_lines(apart) if line.endswith(":")] == [
        "What left 'north':", "What left 'south':"
    ]  # fmt: skip
    assert release_lines({}) == []


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((28,), "28 tests of pairs"),
        ((0, 1), "1 test of pairs given one other"),
        ((0, 0, 3310), "3,310 tests of pairs given two others"),
        ((2, 0, 0, 0, 0, 0, 0, 4), "6 tests of pairs given up to 7 others"),
        ((0, 0), "0 tests of pairs"),
    ],
)
def test_tests_are_said_in_words(counts, said):
    assert ci_tests.tests_of(counts) == said


def test_one_is_no_plural():
    assert [counted(n, "site") for n in (0, 1, 2)] == ["0 sites", "1 site", "2 sites"]


def test_in_the_clear_nothing_is_only_a_sum():
    assert "sum" not in told("covered+site-differences", "none").split("seen by")[1]
