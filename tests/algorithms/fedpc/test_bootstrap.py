"""Confidence from replicates over drawn rows: against drawing by hand, and what sites withhold."""

import itertools

import numpy as np
import pandas as pd
import pytest
from driving import answered, drive
from hypothesis import given, settings
from hypothesis import strategies as st
from simulating import view_of, views_of

from cipherdag import Federation, FedPC, Policy
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import MalformedMessageError, ParameterError, PolicyRefusedError
from cipherdag.findings.confidence import Confidences, EdgeCounts
from cipherdag.graphs.endpoints import endpoints_of
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.networks import asia
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.gather import gather
from cipherdag.questions.pooled_data import SmallCells, Tables
from cipherdag.questions.question import Bundle, Resampled
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.sites.answers import site_view
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.policy.policy import QUESTION_KINDS


def patients(rows=900, seed=0):
    return asia().sample(rows, np.random.default_rng(seed))


def counts_of(algorithm, sites, seed=0):
    return drive(algorithm.ask(Facts(sites[0].n_variables, len(sites), seed=seed)), sites)


def numbers(rows=600, seed=0):
    """a -> b strongly, a -> c weakly, d alone."""
    rng = np.random.default_rng(seed)
    a, d = rng.normal(size=(2, rows))
    b = 0.9 * a + rng.normal(size=rows)
    c = 0.13 * a + rng.normal(size=rows)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d})


# against drawing by hand


@pytest.mark.parametrize("evidence", ["vote", "fisher", "pooled", "glm"])
def test_replicates_are_runs_over_drawn_rows(evidence):
    federation = Federation.split(patients(), 3)
    seed = 7
    own = {"evidence": evidence, "alpha": 0.05, "max_cond_size": 0 if evidence == "glm" else 1}
    algorithm = FedPC(**own)
    outcome, _ = counts_of(FedPC(**own, bootstrap=3), views_of(federation), seed)
    assert (outcome.arcs == counts_of(algorithm, views_of(federation))[0].arcs).all()
    graphs = []
    for replicate in (1, 2, 3):
        drawn = [
            site.table.take(view_of(site.table).resampled_rows(replicate, seed))
            for site in federation.sites
        ]
        arcs = counts_of(algorithm, [*map(view_of, drawn)])[0].arcs
        graphs.append(endpoints_of(arcs))
    assert outcome.bootstrap == EdgeCounts.of(graphs, "---")


def test_replicates_share_questions_and_rounds_of_the_longest():
    sites = views_of(Federation.split(patients(), 3))
    _, alone = counts_of(FedPC(evidence="fisher"), sites)
    _, questions = counts_of(FedPC(evidence="fisher", bootstrap=8), sites)
    assert len(questions) <= len(alone) + 2
    assert len(questions[0].parts) == 9
    assert questions[0].kind == "combined-evidence+resampled"
    assert questions[0].label == f"{alone[0].label}, 8 replicates"


# what is drawn


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**64 - 1), replicate=st.integers(1, 1000))
def test_rows_are_drawn_with_replacement_from_all(seed, replicate):
    table = Federation.split(numbers(200), 1).sites[0].table
    rows = view_of(table).resampled_rows(replicate, seed)
    assert rows.shape == (200,)
    assert rows.min() >= 0
    assert rows.max() < 200
    assert 90 < len(set(rows.tolist())) < 160  # 1 - 1/e of them; 8 deviations
    assert (rows == view_of(table).resampled_rows(replicate, seed)).all()
    assert (rows != view_of(table).resampled_rows(replicate % 1000 + 1, seed)).any()
    assert (rows != view_of(table).resampled_rows(replicate, seed ^ 1)).any()


def test_every_row_is_as_likely_as_another():
    table = Federation.split(numbers(50), 1).sites[0].table
    drawn = np.concatenate([view_of(table).resampled_rows(number, 3) for number in range(1, 401)])
    counts = np.bincount(drawn, minlength=50)
    assert ((counts - 400) ** 2 / 400).sum() < 90  # chi-square of 49: above in 3 of 10,000


def test_who_does_not_know_all_rows_cannot_tell_which_are_drawn():
    data = numbers(200)
    one = Federation.simulate({"s": data}).sites[0].table
    data.iloc[17, 2] += 1e-9
    other = Federation.simulate({"s": data}).sites[0].table
    assert (view_of(one).resampled_rows(1, 0) != view_of(other).resampled_rows(1, 0)).mean() > 0.9


def test_the_seed_decides_and_the_order_of_sites_does_not():
    sites = views_of(Federation.split(patients(), 4))
    algorithm = FedPC(evidence="fisher", bootstrap=4)
    first = counts_of(algorithm, sites, seed=1)[0].bootstrap
    again = counts_of(algorithm, sites[::-1], seed=1)[0].bootstrap
    assert first == again
    other = counts_of(algorithm, sites, seed=2)[0].bootstrap
    assert first != other


def test_rows_that_are_not_kept_are_drawn_again(monkeypatch):
    table = Federation.split(patients(), 3).sites[0].table
    question = EdgeVotes(
        skeleton=Skeleton.from_matrix(~np.eye(len(table.names), dtype=bool)),
        layer=0,
        test=CITestSpec(alpha=0.01),
    )
    kept, forgetful = view_of(table), view_of(table)
    for replicate in (1, 2, 1, 3, 2):
        asked = Resampled(question=question, replicate=replicate, seed=5)
        answer = kept.answer(asked)
        with monkeypatch.context() as patched:
            patched.setattr(site_view, "MEMORY", 1)
            assert (answer == forgetful.answer(asked)).all()
    assert len(kept.memory["replicates"]) == 3
    assert len(forgetful.memory["replicates"]) == 1


# strong and weak edges


def test_strong_edges_come_back_and_weak_ones_less():
    federation = Federation.split(numbers(), 3)
    result = federation.run(FedPC(evidence="pooled", bootstrap=60, alpha=0.05), seed=1)
    outcome, _ = counts_of(
        FedPC(evidence="pooled", bootstrap=60, alpha=0.05), views_of(federation), seed=1
    )
    joined = {pair: sum(marks.values()) for pair, marks in outcome.bootstrap.pairs.items()}
    assert joined[0, 1] == 60
    assert joined[0, 1] > joined[0, 2] > joined[0, 3]
    assert result.finding.details["bootstrap"]["replicates"] == 60
    strongest = result.table("confidence").sort_values("any_edge").iloc[-1]
    assert {strongest["from"], strongest["to"]} == {"a", "b"}
    assert strongest["any_edge"] == 1.0


# policies


def test_what_is_withheld_of_a_site_s_rows_is_withheld_of_drawn_ones():
    rows = pd.DataFrame({"x": [0, 1] * 40 + [0], "y": [0] * 80 + [1]}).astype(str)
    table = Federation.simulate({"s": rows}).sites[0].table
    site = view_of(table, 11)
    counts, members = pack_blocks([np.array([[0], [1]]), np.array([[0, 1]])])
    ask = {"categories": (2, 2), "counts": counts, "members": members}
    small = SmallCells(**ask)
    tables = Tables(**ask)
    drawn = view_of(table)
    without = next(
        number
        for number in range(1, 100)
        if not table.take(drawn.resampled_rows(number, 0)).codes[:, 1].any()
    )
    # the one row with y = 1 is not drawn, so that drawn counts alone would tell that it is small
    assert site.answer(small).tolist() == [0.0, 1.0, 1.0]
    asked = Resampled(question=small, replicate=without)
    assert site.answer(asked).tolist() == [0.0, 1.0, 1.0]
    with pytest.raises(PolicyRefusedError, match="min_cell_size"):
        site.answer(Resampled(question=tables, replicate=without))


def test_a_policy_may_refuse_drawing_and_limits_its_values():
    no_drawing = Policy(questions=QUESTION_KINDS - {"resampled"})
    federation = Federation.split(patients(), 3, policy=no_drawing)
    federation.run(FedPC(evidence="vote"))
    with pytest.raises(PolicyRefusedError, match="resampled"):
        federation.run(FedPC(evidence="vote", bootstrap=1))
    few = Federation.split(patients(), 3, policy=Policy(max_values=1000))
    few.run(FedPC(evidence="vote"))
    with pytest.raises(PolicyRefusedError, match="max_values"):
        few.run(FedPC(evidence="vote", bootstrap=20))
    no_votes = Policy(questions=QUESTION_KINDS - {"edge-votes"})
    with pytest.raises(PolicyRefusedError, match="edge-votes"):
        Federation.split(patients(), 3, policy=no_votes).run(FedPC(evidence="vote", bootstrap=1))


def test_questions_are_checked():
    votes = EdgeVotes(
        skeleton=Skeleton.from_matrix(~np.eye(3, dtype=bool)), layer=0, test=CITestSpec(alpha=0.01)
    )
    for wrong in ({"replicate": 0}, {"replicate": 1001}, {"replicate": 1, "seed": -1}):
        with pytest.raises(ValueError, match=r"replicate|seed"):
            Resampled(question=votes, **wrong)
    own = Resampled(question=votes, replicate=1)
    assert own.encodings == votes.encodings
    with pytest.raises(ValueError, match="resampled"):
        Resampled(question=own, replicate=2)
    with pytest.raises(MalformedMessageError, match="draws no rows"):
        SiteView(None, None, (0,) * 3).answer(own)


def test_parameters_are_checked():
    for wrong in (-1, 1001):
        with pytest.raises(ParameterError, match="bootstrap"):
            FedPC(evidence="vote", bootstrap=wrong)
    with pytest.raises(ParameterError, match="seed"):
        next(FedPC(evidence="vote", bootstrap=1).ask(Facts(3, 3, seed=-1)))


# rounds of many searches


def test_rounds_with_too_many_values_are_asked_in_several():
    votes = [
        EdgeVotes(
            skeleton=Skeleton.from_matrix(~np.eye(n, dtype=bool)),
            layer=0,
            test=CITestSpec(alpha=0.01),
        )
        for n in (3, 4, 2, 5)  # 3, 6, 1 and 10 values
    ]

    def search(question):
        return (yield question)

    def run(most):
        rounds = itertools.count(1)
        outcomes, heard = answered(
            gather([search(own) for own in votes], most_values=most),
            lambda question: np.arange(question.n_values) + 100.0 * next(rounds),
        )
        return [len(own.parts) if isinstance(own, Bundle) else 1 for own, _ in heard], outcomes

    assert run(None)[0] == [4]
    asked, outcomes = run(9)
    assert asked == [2, 1, 1]
    assert [len(own) for own in outcomes] == [3, 6, 1, 10]
    assert outcomes[1].tolist() == [103.0, 104.0, 105.0, 106.0, 107.0, 108.0]
    assert outcomes[3][0] == 300.0


# as users see it


def test_result_tells_the_confidence_everywhere(tmp_path):
    federation = Federation.split(patients(), 3)
    result = federation.run(FedPC(evidence="vote", bootstrap=10), seed=1)
    frame = result.table("confidence")
    assert list(frame.columns) == ["from", "to", "mark", "confidence", "any_edge"]
    assert len(frame) == len(result.finding.graph.edges)
    sure = frame[[own.stands_on_evidence for own in result.finding.evidence.edges]]
    assert len(sure)
    assert sure["confidence"].between(0, 1).all()
    assert (sure["any_edge"] >= sure["confidence"]).all()
    for edge in result.finding.graph.edges:
        own = result.finding.evidence.of(edge.source, edge.target)
        if own.stands_on_evidence:
            assert own.shown.endswith("/10")
            assert any("replicates over rows drawn anew" in fact for fact in own.facts)
        else:
            assert own.shown == ""  # it comes back for want of the same tests
        assert any(fact.startswith("Kept by") for fact in own.facts)  # the votes stand beside it
    folder = result.save(tmp_path / "out")
    edges = (folder / "edges.csv").read_text("utf-8")
    assert edges.startswith("from,to,mark,confidence,any_edge,consensus,status,why\n")
    assert CausalGraph.from_csv(edges, nodes=result.finding.graph.nodes) == result.finding.graph
    page = (folder / "report.html").read_text("utf-8")
    assert "Strength is the share of replicates" in page
    assert "rows that each site drew anew" in page
    plain = federation.run(FedPC(evidence="vote"))
    assert plain.table("confidence").empty
    assert "bootstrap" not in plain.finding.details


def test_the_command_prints_and_repeats_it(call, tmp_path):
    patients().to_csv(tmp_path / "all.csv", index=False)
    command = ("simulate", "fedpc", tmp_path / "all.csv", "--sites", 3, "--bootstrap", 4)
    code, shown, _ = call(*command, "--evidence", "fisher", "--out", tmp_path / "out")
    assert code == 0
    told = shown[shown.index("Consensus, the marks") :].split("\n\n")[0]
    assert len(told.splitlines()) > 1
    assert "% of replicates" in shown
    assert told in call("repeat", tmp_path / "out")[1]


def test_where_shares_are_shown_it_is_said_how_often_they_are_right():
    graph = CausalGraph.from_edges(["a", "b"], directed=[("a", "b")])
    pair = {"from": "a", "to": "b", "forward": 3, "backward": 1, "undirected": 0}
    shares = Confidences({"replicates": 4, "pairs": [pair]})
    (said,) = shares.report(graph).limits
    assert "arrows in 50 to 75 % of replicates in 57 to 83 %" in said
    assert shares.graphs(graph) == ()  # a result of an earlier version has counts alone
