"""Tests of many pairs at once: those that a site does one by one."""

import patients
import pytest
from pairs_of_visits import PairScores

SMALL = patients.WORLDS["3 x 15, uneven"]
LARGE = patients.World(2, 60, "half once", 0.5, 0.5)


@pytest.mark.parametrize("world", [SMALL, LARGE])
@pytest.mark.parametrize("kind", patients.KINDS)
def test_pairs_at_once_are_those_of_a_site(kind, world):
    patients.compare(world, patients.KINDS[kind], 0.0, 4)


@pytest.mark.parametrize("kind", ["4 x 4", "4 x number", "2 x number, given a number"])
def test_pairs_that_differ_from_a_site_are_no_level(kind, monkeypatch):
    right = PairScores._by_patient

    def wrong(self, terms, coefficients):
        return tuple(1.1 * part for part in right(self, terms, coefficients))

    monkeypatch.setattr(PairScores, "_by_patient", wrong)
    with pytest.raises(ValueError, match="differ from those of a site"):
        patients.compare(SMALL, patients.KINDS[kind], 0.0, 4)


def test_few_visits_are_distributed_as_all_that_are_drawn():
    shape, rng = patients.World(1, 4000, "half once", 0.5, 0.4), patients.np.random.default_rng(1)
    visits = patients.visits_of(rng, shape)
    drawn = patients.few_visits(rng, visits, shape, 2)
    first = visits.cumsum() - visits
    several = first[visits > 2]
    assert drawn.var() == pytest.approx(1.0, abs=0.06)
    for lag, expected in ((1, 0.4 + 0.6 * 0.5), (2, 0.4 + 0.6 * 0.25)):
        found = (drawn[several] * drawn[several + lag]).mean()
        assert found == pytest.approx(expected, abs=0.08)
