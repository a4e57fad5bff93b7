"""Sentences about what left a site say no more than is so."""

from __future__ import annotations

import pytest

from cipherdag.pages.numerals import counted
from cipherdag.results.sentences import CountedReleases, site_sentences


def told(kind, protection="masking"):
    own = CountedReleases(kind=kind, protection=protection, sites=6, values=3, bytes=900, round=2)
    return next(iter(site_sentences([own])))


@pytest.mark.parametrize("kind", ["covered+site-differences", "combined-evidence+covered"])
def test_what_is_opened_of_enough_sites_is_not_said_to_be_of_all(kind):
    assert "only as a sum over 6 sites, of which some may add nothing to a part" in told(kind)


@pytest.mark.parametrize("kind", ["columns", "contributors+site-differences", "moments"])
def test_what_every_site_adds_to_is(kind):
    assert told(kind).endswith("only as a sum over 6 sites")


def test_one_is_no_plural():
    assert [counted(n, "site") for n in (0, 1, 2)] == ["0 sites", "1 site", "2 sites"]


def test_in_the_clear_nothing_is_only_a_sum():
    assert "sum" not in told("covered+site-differences", "none").split("seen by")[1]
