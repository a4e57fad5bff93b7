"""Who shares a key with whom on a sparse graph, and how sure that is."""

import hashlib
from dataclasses import replace
from itertools import combinations
from math import log2

import networkx as nx
import numpy as np
import pytest
from cohort import SUM_KEY, agreed_keys, declare, only, seeds_of, shares_of, words_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from cipherdag.errors import CohortError, ParameterError
from cipherdag.privacy.aggregation import Segment
from cipherdag.privacy.key_graph import (
    FAILURE_BITS,
    MOST_NEIGHBOURS,
    KeyBounds,
    KeyGraph,
    more_than,
)
from cipherdag.privacy.keys.secretsharing import combine
from cipherdag.privacy.mpc.batch import Roles
from cipherdag.privacy.protection_kind import MASKING
from cipherdag.privacy.roundmasks import RoundMasks, rebuild_seed
from cipherdag.protocol.set_up import earlier, later

SURE = 2.0**-FAILURE_BITS


def beacon(number=0):
    return hashlib.sha256(number.to_bytes(8, "big")).digest()


def drawn(n_sites, degree, number=0):
    return KeyGraph.drawn(beacon(number), n_sites, degree)


def as_networkx(graph):
    found = nx.Graph()
    found.add_nodes_from(graph.ring)
    found.add_edges_from((a, b) for a in graph.ring for b in graph.neighbours(a))
    return found


rings = st.tuples(st.integers(5, 40), st.integers(1, 19), st.integers(0, 2**32)).map(
    lambda own: drawn(own[0], min(2 * own[1], own[0] - 1), own[2])
)


@given(rings)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_every_site_has_as_many_neighbours_and_each_has_it(graph):
    n_sites = len(graph.ring)
    assert sorted(graph.ring) == list(range(n_sites))
    for site in range(n_sites):
        near = graph.neighbours(site)
        assert list(near) == sorted(set(near))
        assert len(near) == min(graph.degree, n_sites - 1)
        assert site not in near
        assert all(site in graph.neighbours(other) for other in near)
    assert graph.whole == (graph.degree >= n_sites - 1)


def test_a_complete_graph_and_those_asked_of_it():
    graph = KeyGraph.complete(5)
    assert graph.whole
    assert graph.neighbours(2) == (0, 1, 3, 4)
    assert graph.peers(2, (0, 2, 3)) == [0, 3]
    assert KeyGraph.complete(1).neighbours(0) == ()


def test_the_ring_follows_from_the_beacon_and_pairs_share_keys():
    assert drawn(30, 6) == drawn(30, 6)
    assert drawn(30, 6) != drawn(30, 6, 1)
    tries, n_sites, degree = 3000, 12, 4
    counts = np.zeros((n_sites, n_sites))
    for number in range(tries):
        graph = drawn(n_sites, degree, number)
        for site in range(n_sites):
            counts[site, list(graph.neighbours(site))] += 1
    expected = tries * degree / (n_sites - 1)
    above = counts[np.triu_indices(n_sites, 1)]
    spread = np.sqrt(tries * (degree / 11) * (7 / 11))
    assert abs(above - expected).max() < 5 * spread


# ------------------------------------------------------------------ bounds


@given(st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_tails_are_those_of_scipy(data):
    n_sites = data.draw(st.integers(2, 300))
    marked = data.draw(st.integers(0, n_sites))
    taken = data.draw(st.integers(0, n_sites))
    few = data.draw(st.integers(0, n_sites))
    expected = hypergeom.sf(few, n_sites, marked, taken)
    assert more_than(few, n_sites, marked, taken) == pytest.approx(expected, rel=1e-6, abs=1e-14)


CASES = [(1000, 1), (1000, 100), (1000, 140), (1000, 180), (300, 30), (120, 1), (200, 10)]


@pytest.mark.parametrize(("n_sites", "colluders"), CASES)
def test_the_bounds_are_kept_by_the_fewest_keys_and_by_no_fewer(n_sites, colluders):
    leaving = n_sites // 20
    own = KeyBounds.fewest(n_sites, colluders, leaving)
    colluders = max(colluders, n_sites // 10)  # whatever is declared
    assert (own.colluders, own.leaving) == (colluders, leaving)
    assert own.sound
    assert own.degree <= MOST_NEIGHBOURS
    assert max(own.exposure, own.loss) <= SURE
    # by the tails of another library
    half, row = own.degree // 2, (own.degree - leaving - 1) // 2
    few, spare = own.threshold - leaving - 1, own.degree - own.threshold
    exposure = n_sites * hypergeom.sf(row, n_sites, colluders, half)
    exposure += (n_sites - colluders) * hypergeom.sf(few, n_sites - 1, colluders, own.degree)
    loss = n_sites * hypergeom.sf(spare, n_sites - 1, leaving - 1, own.degree)
    assert own.exposure == pytest.approx(exposure, rel=1e-6, abs=1e-30)
    assert own.loss == pytest.approx(loss, rel=1e-6, abs=1e-30)
    fewer = (replace(own, degree=own.degree - 2, threshold=t) for t in range(1, own.degree - 1))
    assert not any(other.sound for other in fewer)


@pytest.mark.parametrize(
    "change",
    [{"degree": 121}, {"threshold": 0}, {"threshold": 80}, {"threshold": 121}, {"degree": 92},
     {"degree": 998, "threshold": 500, "n_sites": 999}, {"leaving": -1}, {"colluders": 1000}],
)  # fmt: skip
def test_other_numbers_are_not_sound(change):
    own = KeyBounds.fewest(1000, 1, 50)
    assert (own.degree, own.threshold) == (120, 92)
    assert not replace(own, **change).sound


@given(n_sites=st.integers(4, 400), data=st.data())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_who_writes_a_plan_does_not_choose_how_thin_the_graph_is(n_sites, data):
    tenth, twentieth = n_sites // 10, n_sites // 20
    declared = data.draw(st.tuples(st.integers(0, tenth), st.integers(0, twentieth)))
    assert KeyBounds.fewest(n_sites, *declared) == KeyBounds.fewest(n_sites, tenth, twentieth)
    own = KeyBounds.fewest(n_sites, *declared)
    assert own is None or own.degree >= 4, "three sites share keys, for verdicts"


def test_where_too_many_collude_it_is_refused_with_the_figures():
    with pytest.raises(ParameterError, match="150 keys .* 1000 sites .* 333 collude and 50 leave"):
        KeyBounds.fewest(1000, 333, 50)
    assert KeyBounds.fewest(150, 100, 8) is None, "so few sites may share all keys"
    for colluders, leaving in ((-1, 5), (1000, 5), (5, 1000), (5, -1)):
        with pytest.raises(ParameterError):
            KeyBounds.fewest(1000, colluders, leaving)


def test_what_a_person_is_told_has_the_figures():
    told = KeyBounds.fewest(1000, 100, 50).sentence()
    for figure in ("120 of the 999 others", "92 of them", "100 collude", "2^-41", "50"):
        assert figure in told
    own = KeyBounds.fewest(1000, 100, 50)
    assert log2(own.exposure) <= -41
    assert log2(own.loss) <= -41


# ------------------------------------------------------------------ simulations


def colluding_rows(n_sites, colluders, length, rng):
    """The most colluders among so many sites in a row, of a random ring."""
    marked = np.zeros(n_sites, dtype=int)
    marked[rng.permutation(n_sites)[:colluders]] = 1
    twice = np.concatenate([marked, marked[: length - 1]])
    return np.convolve(twice, np.ones(length, dtype=int), "valid").max()


def test_rings_are_cut_no_more_often_than_the_bound_says():
    """At parameters so weak that it happens: the union bound holds, and is no idle one."""
    rng = np.random.default_rng(0)
    own = KeyBounds(n_sites=200, colluders=40, leaving=6, degree=30, threshold=30)
    row, tries = (own.degree - own.leaving - 1) // 2, 2000
    found = np.mean([colluding_rows(200, 40, 15, rng) > row for _ in range(tries)])
    bound = 200 * hypergeom.sf(row, 200, 40, 15)
    assert 0 < bound < 0.2
    assert found <= bound + 4 * np.sqrt(bound / tries)
    # rows overlap, so that one too many is seen in several of them
    looser = replace(own, degree=24, leaving=8)
    row = (looser.degree - looser.leaving - 1) // 2
    often = np.mean([colluding_rows(200, 40, 12, rng) > row for _ in range(tries)])
    bound = 200 * hypergeom.sf(row, 200, 40, 12)
    assert bound / 20 < often <= bound + 4 * np.sqrt(bound / tries)


def test_too_few_neighbours_stay_no_more_often_than_the_bound_says():
    rng = np.random.default_rng(1)
    own = KeyBounds(n_sites=200, colluders=0, leaving=20, degree=24, threshold=17)
    lost, tries = 0, 1000
    for number in range(tries):
        gone = set(rng.permutation(200)[:20].tolist())
        graph = drawn(200, 24, number % 50)
        lost += any(
            sum(other not in gone for other in graph.neighbours(site)) < own.threshold
            for site in gone
        )
    assert 0.005 < own.loss < 0.5
    assert own.loss / 20 < lost / tries <= own.loss + 4 * np.sqrt(own.loss / tries)


@pytest.mark.parametrize("colluders", [1, 100])
def test_a_thousand_sites_of_which_a_twentieth_leave_stay_connected(colluders):
    """Whether sites leave by chance, or those that hurt most are said to have left."""
    rng = np.random.default_rng(colluders)
    own = KeyBounds.fewest(1000, colluders, 50)
    for number in range(5):
        graph = drawn(1000, own.degree, number)
        whole = as_networkx(graph)
        corrupt = set(rng.permutation(1000)[:colluders].tolist())
        honest = [site for site in graph.ring if site not in corrupt]
        victim = honest[0]
        near = [site for site in graph.neighbours(victim) if site not in corrupt]
        row = [site for site in (*graph.ring, *graph.ring)[17 : 17 + 80] if site not in corrupt]
        for gone in (rng.permutation(honest)[:50].tolist(), near[:50], near[-50:], row[:50]):
            left = whole.subgraph(set(honest) - set(gone))
            assert nx.is_connected(left)
            for site in gone:
                # what those who left one of two sums tell, and colluders, is never enough
                assert len(set(graph.neighbours(site)) & corrupt) + 50 < own.threshold
        chance = set(rng.permutation(1000)[:50].tolist())
        for site in chance:
            assert len(set(graph.neighbours(site)) - chance) >= own.threshold


@pytest.mark.parametrize(("n_sites", "degree"), [(8, 4), (9, 4), (10, 6), (11, 6)])
def test_no_choice_of_sites_that_leave_cuts_a_ring_with_few_colluders(n_sites, degree):
    """Every choice, by brute force: the rule on sites in a row is right, and no stricter."""
    graph = drawn(n_sites, degree)
    whole, half = as_networkx(graph), degree // 2
    cut_somewhere = False
    for colluders in range(3):
        for corrupt in combinations(range(n_sites), colluders):
            marked = [site in corrupt for site in (*graph.ring, *graph.ring[: half - 1])]
            worst = max(sum(marked[k : k + half]) for k in range(n_sites))
            for leaving in range(3):
                for gone in combinations(sorted(set(range(n_sites)) - set(corrupt)), leaving):
                    left = whole.subgraph(set(range(n_sites)) - set(corrupt) - set(gone))
                    connected = len(left) < 2 or nx.is_connected(left)
                    assert connected or degree - 2 * worst <= leaving
                    cut_somewhere |= not connected
    assert cut_somewhere or degree > 4


# ------------------------------------------------------------------ masks


def sites_on(graph, seed=0):
    keys = agreed_keys(len(graph.ring), seed)
    return [
        MASKING.site(
            site,
            {other: keys[site][other] for other in graph.neighbours(site)},
            SUM_KEY,
            b"",
            len(graph.ring),
        )
        for site in range(len(graph.ring))
    ]


@st.composite
def asked_on_a_ring(draw):
    graph = draw(rings)
    n_sites = len(graph.ring)
    whole = as_networkx(graph)
    gone = draw(st.sets(st.integers(0, n_sites - 1), max_size=n_sites // 3))
    asked = tuple(sorted(set(range(n_sites)) - gone))
    near = min(len(graph.peers(site, asked)) for site in asked)
    if not nx.is_connected(whole.subgraph(asked)) or near == 0:
        asked, near = tuple(range(n_sites)), min(graph.degree, n_sites - 1)
    return graph, asked, draw(st.integers(0, near)), draw(st.integers(0, 2**32))


@given(asked_on_a_ring())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_unmasking_undoes_masking_over_every_graph(drawn_round):
    graph, asked, threshold, seed = drawn_round
    rng = np.random.default_rng(seed)
    sites = sites_on(graph)
    answers = rng.integers(-1000, 1000, (len(sites), 7)).astype(float)
    segment = Segment(7, 1000.0, signed=True)
    declaration = declare(len(asked), segment, participants=asked, threshold=threshold)
    coordinator = MASKING.coordinator()
    shares = shares_of(sites, answers, declaration)
    escrow = {site: sites[site].escrow(declaration) for site in asked}
    combined = coordinator.combine(shares, declaration)
    seeds = seeds_of(sites, declaration)
    if threshold:
        left = int(rng.choice(asked))
        peers = graph.peers(left, asked)
        pieces = {
            peer: sites[peer].recover(left, escrow[left][place], declaration)
            for place, peer in enumerate(peers)
        }
        some = dict(list(pieces.items())[:threshold])
        assert coordinator.rebuild(some, declaration) == seeds[left]
    else:
        assert not any(escrow.values())
    found = coordinator.open(combined, seeds, declaration).values
    assert found.tolist() == answers[list(asked)].sum(axis=0).tolist()


def test_a_sum_opens_only_where_a_whole_component_is_summed():
    """With the seeds of all, any part of a connected graph is noise; of two, each opens."""
    length, half = 4000, (0, 1, 2, 3, 4, 5)
    graph = KeyGraph(tuple(range(12)), 4)
    answers = [np.random.default_rng(site).uniform(0, 1, length) for site in range(12)]
    declaration = declare(12, Segment(length, 1.0, 20))
    sites = sites_on(graph)
    shares, coordinator = shares_of(sites, answers, declaration), MASKING.coordinator()
    seeds = seeds_of(sites, declaration)

    def told(some):
        part = replace(declaration, participants=some, cohort_size=len(some))
        total = coordinator.combine(only(some, shares), part)
        values = words_of(coordinator.open(total, only(some, seeds), part).content)
        return values.astype(float)

    for some in ((0,), half, tuple(range(11)), tuple(range(1, 12)), (0, 2, 4, 6, 8, 10)):
        with pytest.raises(Exception, match="produce|answer|range|sum"):
            told(some)
    assert np.allclose(coordinator.open(
        coordinator.combine(shares, declaration), seeds, declaration
    ).values, np.sum(answers, axis=0), atol=1e-4)  # fmt: skip


def test_colluders_around_a_site_would_read_it_and_are_bounded():
    """What the bound is about: all neighbours of site 0 collude, and its answer is open."""
    graph = KeyGraph(tuple(range(9)), 4)
    near = graph.neighbours(0)
    assert nx.is_connected(as_networkx(graph))
    assert not nx.is_connected(as_networkx(graph).subgraph(set(range(9)) - set(near)))
    bounds = KeyBounds(n_sites=9, colluders=4, leaving=0, degree=4, threshold=4)
    assert not bounds.sound
    assert KeyBounds(n_sites=9, colluders=0, leaving=4, degree=4, threshold=4).exposure == 1.0


def test_masks_need_keys_of_the_own_cohort_and_an_asked_neighbour():
    keys = agreed_keys(8)[0]
    some = {site: keys[site] for site in (1, 2)}
    for wrong, n_sites in (({}, 8), (some, 2), ({0: keys[1], **some}, 8)):
        with pytest.raises(CohortError):
            RoundMasks(0, wrong, n_sites)
    masks = RoundMasks(0, some, 8)
    masks.check(declare(3, Segment(1, 1.0), participants=(0, 1, 5)))
    for asked, threshold in (((0, 5, 6), 0), ((0, 1, 5), 2), ((0, 1, 8), 1), ((1, 2, 5), 1)):
        with pytest.raises(CohortError):
            masks.check(declare(3, Segment(1, 1.0), participants=asked, threshold=threshold))


def test_pieces_of_fewer_neighbours_than_the_threshold_do_not_rebuild():
    graph = drawn(12, 6)
    sites = sites_on(graph)
    declaration = declare(12, Segment(2, 1.0), threshold=4)
    shares_of(sites, np.zeros((12, 2)), declaration)
    escrow = {site: sites[site].escrow(declaration) for site in range(12)}
    seeds = seeds_of(sites, declaration)
    peers = graph.neighbours(3)
    assert len(escrow[3]) == len(peers) == 6
    pieces = {p: sites[p].recover(3, escrow[3][k], declaration) for k, p in enumerate(peers)}
    for some in combinations(peers, 4):
        assert rebuild_seed(only(some, pieces), declaration) == seeds[3]
    for some in combinations(peers, 3):
        with pytest.raises(Exception, match="needed"):
            rebuild_seed(only(some, pieces), declaration)
        with pytest.raises(Exception, match="altered"):
            combine({p + 1: pieces[p] for p in some}, 3)
    stranger = next(s for s in range(12) if s != 3 and s not in peers)
    with pytest.raises(Exception, match="another site"):
        sites[stranger].recover(3, escrow[3][0], declaration)


# ------------------------------------------------------------------ roles


@given(rings)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_every_site_links_to_neighbours_the_first_and_all_roles(graph):
    n_sites = len(graph.ring)
    roles = Roles.draw(beacon(1), range(n_sites))
    links = {(a, b) for a in range(n_sites) for b in later(graph, roles, a)}
    assert links == {(a, b) for b in range(n_sites) for a in earlier(graph, roles, b)}
    expected = {(0, site) for site in range(1, n_sites)}
    for site in range(n_sites):
        expected |= {tuple(sorted((site, other))) for other in graph.neighbours(site)}
        expected |= {tuple(sorted((site, other))) for other in roles.sites if other != site}
    assert links == expected
