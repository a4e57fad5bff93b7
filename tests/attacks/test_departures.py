"""A site leaves in any round of any algorithm: a right graph, a less certain one, or an error."""

from __future__ import annotations

from functools import cache

import pytest
from departures import outcome, study, trials, verdict

from cipherdag.protocol.engines.local import LocalEngine

SEED = 0
EVERY = 4
SLOW = {"fedcd": 30}
TRIALS = {name: (algorithm, federation) for name, algorithm, federation in trials(SEED)}
ENDS_WELL = {"right", "less certain", "SiteUnreachableError"}


@cache
def studied(name):
    """Departures in every so many rounds of a trial, by verdict."""
    algorithm, federation = TRIALS[name]
    return study(name, algorithm, federation, SLOW.get(name, EVERY))


@pytest.mark.parametrize("name", TRIALS)
def test_no_departure_gives_a_wrong_graph(name):
    found = studied(name)
    assert sum(found.values()) >= 6
    assert found["WRONG"] == 0
    assert set(found) <= ENDS_WELL | {"WRONG"}, "another error than that sites are missing"


@pytest.mark.parametrize("name", [name for name in TRIALS if name.startswith("rfcd")])
def test_rfcd_goes_on_without_no_site(name):
    """It compares all its values with one another, which a departure tears into two kinds."""
    found = studied(name)
    # only a site that is gone after the last sum takes nothing away from it
    assert found["SiteUnreachableError"] > found["right"]
    assert found["less certain"] == 0


def test_a_verdict_tells_a_wrong_graph_from_a_right_one():
    """The yardstick itself: a run of other data is wrong, unless it says less."""
    algorithm, federation = TRIALS["fedpc weighted_p"]
    _, other = TRIALS["fedpc pooled numbers"]
    found, _ = outcome(federation, algorithm, LocalEngine)
    assert verdict(found, (found, found)) == "right"
    assert verdict("SiteUnreachableError", (found,)) == "SiteUnreachableError"
    numbers, _ = outcome(other, TRIALS["fedpc pooled numbers"][0], LocalEngine)
    assert verdict(numbers, (found, found)) == "WRONG"
