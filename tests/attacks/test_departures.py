"""A site leaves in any round of any algorithm: a right graph, a less certain one, or an error."""

from collections import defaultdict
from functools import cache

import numpy as np
import pandas as pd
import pytest
from departures import Leaving, outcome, study, verdict
from trials import departing

from cipherdag import Federation, FedPC
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.messages import content_digest
from cipherdag.questions.threshold import Suppressed
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.session.round import Coverage

EVERY = 4
SLOW = {"fedcd": 30}
TRIALS = departing()
ENDS_WELL = {"right", "less certain", "SiteUnreachableError", "CohortError"}
"""The last where a site left that has a role in secure tests."""


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


def test_a_contributor_that_leaves_once_counted_takes_the_test_along(monkeypatch):
    """Three of five sites have a stratum; without one of them, two would be opened."""
    rng = np.random.default_rng(0)
    tables = {}
    for k in range(5):
        a = rng.integers(0, 2, 300)
        b = a ^ (rng.random(300) < 0.2) if k < 3 else (np.arange(300) < 1).astype(int)
        tables[f"site-{k}"] = pd.DataFrame({"a": a, "b": b, "c": a ^ (rng.random(300) < 0.2)})
    policy = Policy(allow_unprotected=True, min_cell_size=0, reveal="sums")
    federation = Federation.simulate(tables, policy=policy, device="cpu")
    algorithm = FedPC(evidence="stratified", reveal="sums")
    answered = defaultdict(list)
    honest = Coverage.suppress

    def suppress(coverage, question, answer, n_sites):
        found = honest(coverage, question, answer, n_sites)
        if isinstance(question, Suppressed):
            answered[content_digest(question), n_sites].append(found != 0.0)
        return found

    monkeypatch.setattr(Coverage, "suppress", suppress)
    whole, engine = outcome(federation, algorithm, Leaving)
    assert {len(own) for own in answered.values()} == {5}
    assert 3 in np.concatenate([np.sum(own, axis=0) for own in answered.values()])
    ended = []
    for number in range(1, engine.heard["ask"] + 1):
        answered.clear()
        found, _ = outcome(
            federation, algorithm, lambda h, n=number: Leaving(h, "ask", n, site="site-1")
        )
        # what five were asked for is not opened without the fifth
        opened = [np.sum(own, axis=0) for (_, asked), own in answered.items() if asked == 4]
        assert not np.isin(np.concatenate([*opened, [0]]), [1, 2]).any()
        ended.append(isinstance(found, str))
        assert found in ENDS_WELL if ended[-1] else pairs_of(whole) <= pairs_of(found)
    # before the first bits no site has a role, and any may leave
    assert not all(ended)


def pairs_of(found):
    """Adjacent variables."""
    return {frozenset((e.source, e.target)) for e in found.finding.graph.edges}
