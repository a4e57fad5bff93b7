"""What the coordinator of an RFcd run can see: a function of the worst-case regrets, no more."""

from dataclasses import replace

import numpy as np
import pytest
from cohort import values_of
from driving import answered, drive
from hypothesis import given, settings
from hypothesis import strategies as st
from regretting import every_dag, frames, gaussian, linear_sites, scored, worst_regrets
from scipy import stats

from cipherdag import Federation, Policy, RFcd
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.errors import PolicyRefusedError
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.privacy.sums import CoordinatorAggregation
from cipherdag.questions.comparison import secure_lowest
from cipherdag.questions.regrets import GraphRegretExceeds


def simulated(algorithm, n_variables, worst):
    """The coordinator's whole view, made from the worst-case regrets without any site."""

    def answer(question):
        families = question.family_list()
        graphs = [tuple(families[k][1] for k in row) for row in question.graph_rows().tolist()]
        regrets = np.array([worst[dag] for dag in graphs])
        return (regrets[:, None] > question.threshold_array()).astype(float).ravel()

    outcome, heard = answered(algorithm.ask(Facts(n_variables, 3)), answer)
    return [(question, told.tobytes()) for question, told in heard], outcome


def recorded(federation, algorithm, monkeypatch):
    """A real run: the view of its coordinator, and the opened words behind every comparison."""
    words = []
    opened = CoordinatorAggregation.open

    def watching(self, combined, seeds, declaration):
        aggregate = opened(self, combined, seeds, declaration)
        words.append((np.frombuffer(aggregate.content, dtype="<u8"), aggregate.values))
        return aggregate

    with monkeypatch.context() as patch:
        patch.setattr(CoordinatorAggregation, "open", watching)
        result = federation.run(algorithm)
    return result, words


@pytest.mark.parametrize("search", ["auto", "beam"])
def test_the_view_is_a_function_of_the_worst_case_regrets(search):
    _, tables = linear_sites(4, 4, 150, 3)
    scores = gaussian(tables)
    algorithm = RFcd(searching=Searching(search=search, beam=4))
    worst = worst_regrets(scores, every_dag(4))
    view, outcome = simulated(algorithm, 4, worst)
    real, asked = drive(algorithm.ask(Facts(4, 4)), [scored(own) for own in scores])
    assert [question for question, _ in view] == asked
    assert (outcome.dag == real.dag).all()
    assert outcome.curve == real.curve
    # cohorts of other sizes and orders with the same worst case give the same view
    for other in (scores[::-1], [*scores, *scores[:2]]):
        _, again = drive(algorithm.ask(Facts(4, len(other))), [scored(own) for own in other])
        assert again == asked


def test_a_real_run_shows_the_simulated_view(monkeypatch):
    _, tables = linear_sites(4, 3, 150, 6)
    algorithm = RFcd(searching=Searching(beam=3))
    view, outcome = simulated(algorithm, 4, worst_regrets(gaussian(tables), every_dag(4)))
    free = Policy(min_cell_size=0)
    federation = Federation.simulate(frames(tables), policy=free, device="cpu")
    result, words = recorded(federation, algorithm, monkeypatch)
    assert (result.finding.dag.arcs == outcome.dag).all()
    assert [values.tobytes() for _, values in words] == [answer for _, answer in view]


def test_which_site_is_the_worst_leaves_no_trace_in_the_opened_words(monkeypatch):
    """One run with one worst site, one with the sites in another order, one with every site twice:
    the same zeros, and uniform words elsewhere."""
    _, tables = linear_sites(4, 3, 150, 6)
    worlds = [tables, tables[::-1], [*tables, *tables]]
    samples = []
    for world in worlds:
        federation = Federation.simulate(frames(world), device="cpu")
        _, words = recorded(federation, RFcd(searching=Searching(beam=2)), monkeypatch)
        zeros = [np.flatnonzero(values).tobytes() for _, values in words]
        drawn = np.concatenate([_payload(raw, len(values)) for raw, values in words])
        samples.append((zeros, drawn[drawn != 0] / WORD_MODULI[0]))
    assert samples[0][0] == samples[1][0] == samples[2][0]
    assert len(samples[0][1]) > 3000
    for _, sample in samples:
        assert stats.kstest(sample, "uniform").pvalue > 1e-8
    assert stats.ks_2samp(samples[0][1], samples[1][1]).pvalue > 1e-8
    assert stats.ks_2samp(samples[0][1], samples[2][1]).pvalue > 1e-8


def _payload(raw, length):
    """The words of the values: the first plane without the heads of its rows."""
    return values_of(raw, WORD_MODULI[0])[:length]


def test_every_question_of_the_paper_s_objective_is_a_comparison():
    _, tables = linear_sites(4, 3, 100, 2)
    for objective, summed in (("graph", False), ("nodewise", False), ("sum", True)):
        _, asked = drive(
            RFcd(objective=objective).ask(Facts(4, 3)), [scored(own) for own in gaussian(tables)]
        )
        comparisons = {encoding.comparison for q in asked for encoding in q.encodings}
        assert comparisons == {not summed}
        if objective == "graph":
            assert all(isinstance(q, GraphRegretExceeds) for q in asked)


values_of_sites = st.integers(1, 40).flatmap(
    lambda groups: st.lists(
        st.lists(st.integers(-1000, 1000) | st.sampled_from([5, 6]),
                 min_size=groups, max_size=groups),
        min_size=1, max_size=4,
    )
)  # fmt: skip


def searched(sites, keep, highest, near, words):
    sites = np.array(sites)
    asking = secure_lowest(
        lambda asked, t: (asked, t), sites.shape[1],
        lowest=-1000, highest=highest, near=near, keep=keep, words=words,
    )  # fmt: skip

    def exceeds(question):
        asked, thresholds = question
        return (sites[:, asked, None] > thresholds[None]).any(axis=0).astype(float).ravel()

    found, heard = answered(asking, exceeds)
    return *found, [(asked.tolist(), thresholds.tolist()) for (asked, thresholds), _ in heard]


@settings(max_examples=200)
@given(
    sites=values_of_sites,
    keep=st.integers(1, 12),
    highest=st.integers(-1000, 1000),
    near=st.integers(-1000, 1000),
    words=st.sampled_from([1, 40, 400, 1 << 15]),
)
def test_the_lowest_maxima_are_found_and_nothing_else_decides(sites, keep, highest, near, words):
    near = min(near, highest)
    places, values, seen = searched(sites, keep, highest, near, words)
    largest = np.array(sites).max(axis=0)
    wanted = np.flatnonzero(largest <= highest)
    cut = np.sort(largest[wanted])[keep - 1] if len(wanted) > keep else highest
    assert places.tolist() == [k for k in wanted.tolist() if largest[k] <= cut]
    assert values.tolist() == largest[places].tolist()
    # one site with the maxims alone, and the same sites twice, are asked the same
    assert searched([largest.tolist()], keep, highest, near, words)[2] == seen
    assert searched([*sites, *sites], keep, highest, near, words)[2] == seen


def test_most_groups_are_asked_in_the_first_round_only():
    rng = np.random.default_rng(0)
    sites = rng.integers(-1000, 1000, (3, 2000))
    _, _, seen = searched(sites, 5, 1000, 0, 1 << 15)
    assert len(seen[0][0]) == 2000
    assert sum(len(asked) for asked, _ in seen[1:]) < 600


def test_no_group_asks_nothing():
    places, values, seen = searched(np.zeros((2, 0), dtype=int), 3, 10, 0, 100)
    assert places.size == values.size == len(seen) == 0


def test_a_policy_can_refuse_each_kind_of_question():
    _, tables = linear_sites(3, 3, 80, 1)
    federation = Federation.simulate(frames(tables), device="cpu")
    for site_policy in (
        replace(federation.sites[0].policy, algorithms=frozenset({"fedpc"})),
        replace(
            federation.sites[0].policy,
            questions=federation.sites[0].policy.questions - {"graph-regret-exceeds"},
        ),
    ):
        strict = tuple(replace(site, policy=site_policy) for site in federation.sites)
        with pytest.raises(PolicyRefusedError):
            replace(federation, sites=strict).run(RFcd())
