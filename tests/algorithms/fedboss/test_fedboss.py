"""FedBOSS over sites: one graph however rows are split, nothing asked twice, budgets, knowledge."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from regretting import linear_data
from simulating import driven

from cipherdag import FedBOSS, Federation, Knowledge, Policy, Scoring
from cipherdag.algorithms.fedboss.report import reported
from cipherdag.errors import DataError, ParameterError
from cipherdag.graphs.dags import dag_of
from cipherdag.graphs.graph_sample import GraphSample
from cipherdag.graphs.networks import asia
from cipherdag.questions.question import Bundle
from cipherdag.sites.policy.policy import QUESTION_KINDS

SUMS = FedBOSS(reveal="sums")
POOLED = FedBOSS(within_sites=False)
"""Tables and moments of all rows, as if of one site."""
CHAIN = dag_of(np.eye(5, k=1, dtype=bool))


@cache
def patients(rows=3000):
    return asia().sample(rows, np.random.default_rng(1))


@cache
def numbers(rows=900, seed=0):
    values = linear_data(CHAIN, np.full((5, 5), 0.8), rows, np.random.default_rng(seed))
    return pd.DataFrame(values, columns=list("abcde"))


def learn(algorithm, data, sites, *, min_cell_size=0, seed=3):
    """The outcome and the questions over plain sums."""
    federation = Federation.split(data, sites, seed=2) if isinstance(data, pd.DataFrame) else data
    return driven(algorithm, federation, least=min_cell_size, min_contributors=1, seed=seed)


def parts(asked):
    for question in asked:
        yield from question.parts if isinstance(question, Bundle) else (question,)


def sets_of(asked, kind):
    return [
        tuple(row)
        for part in parts(asked)
        if type(part).__name__ == kind
        for rows in part.sets()
        for row in rows.tolist()
    ]


@pytest.mark.parametrize("draw", [patients, numbers])
def test_scores_have_the_same_bits_however_rows_are_split(draw):
    (first, asked), *others = [learn(POOLED, draw(), sites) for sites in (1, 3, 10, 15)]
    for other, questions in others:
        assert other.curve == first.curve
        assert (other.dag == first.dag).all()
        assert len(questions) == len(asked)
    assert draw is patients or len(asked) == 2


def test_a_result_says_how_many_sets_were_scored_by_which_method():
    federation = Federation.split(patients(), 10, seed=2, policy=Policy(min_cell_size=1))
    found = federation.run(SUMS)
    (note,) = found.report.notes
    count = found.finding.details["sets"]["sites"]
    assert any(
        line.startswith(f"{count} sets") and "likelihoods of single sites" in line
        for line in note.lines
    )


def test_no_table_is_asked_for_twice_nor_one_that_another_tells():
    _, asked = learn(replace(POOLED, scoring=Scoring(restarts=10)), patients(), 3)
    tables = sets_of(asked, "Tables")
    assert len(tables) == len(set(tables)) > 28
    _, asked = learn(replace(SUMS, scoring=Scoring(restarts=10)), patients(), 3)
    sets = sets_of(asked, "LogLikelihoods")
    assert len(sets) == len(set(sets)) > 28
    assert not sets_of(asked, "Tables")


def test_a_budget_of_rounds_is_honoured_and_said():
    whole, every = learn(POOLED, patients(), 3)
    assert not whole.cut_short
    for most in (1, 2, 4):
        outcome, asked = learn(replace(POOLED, scoring=Scoring(max_rounds=most)), patients(), 3)
        # the kinds of columns and the tables of pairs come before the search
        assert len(asked) <= most + 2 < len(every)
        assert outcome.cut_short
        assert outcome.curve[-1] <= whole.curve[-1] + 1e-6
    federation = Federation.split(patients(), 3, seed=2, policy=Policy(min_cell_size=0))
    result = federation.run(FedBOSS(scoring=Scoring(max_rounds=1)))
    assert any("budget" in limit for limit in result.report.limits)


def test_a_budget_of_values_is_honoured():
    _, every = learn(POOLED, patients(), 3)
    outcome, asked = learn(replace(POOLED, scoring=Scoring(max_values=200)), patients(), 3)
    assert outcome.cut_short
    spent = sum(encoding.length for own in asked[2:] for encoding in own.encodings)
    assert spent <= 200 < sum(encoding.length for own in every[2:] for encoding in own.encodings)


def test_columns_with_missing_values_are_scored_by_the_sites():
    rng = np.random.default_rng(5)
    for whole in (patients(), numbers()):
        holes = whole.mask(rng.random(whole.shape) < 0.002)
        outcome, asked = learn(SUMS, holes, 3)
        assert sets_of(asked, "LogLikelihoods")
        assert not sets_of(asked, "Tables")
        assert outcome.sets["sites"] > 0
        assert outcome.dag.any()


def test_where_no_row_is_complete_it_is_said_so():
    holes = patients().copy()
    first, second, *_ = holes.columns
    odd = np.arange(len(holes)) % 2 == 0
    holes[first], holes[second] = holes[first].mask(odd), holes[second].mask(~odd)
    with pytest.raises(DataError, match="no site has rows enough that miss no value"):
        Federation.split(holes, 3, seed=2).run(FedBOSS())


@pytest.mark.parametrize("of", ["patients", "numbers"])
def test_rows_that_scores_leave_out_are_told(of, caplog):
    def warned(found):
        """Apart from what columns determine: of the patients one follows from two others."""
        return [own for own in found.report.warnings if not own.startswith("Columns determine")]

    whole = patients() if of == "patients" else numbers()
    first, *_, last = whole.columns
    rng = np.random.default_rng(7)
    holes = whole.copy()
    holes[first] = whole[first].mask(rng.random(len(whole)) < 0.1)
    holes[last] = whole[last].mask(rng.random(len(whole)) < 0.1)
    policy = Policy(min_cell_size=1)
    found = Federation.split(holes, 3, seed=2, policy=policy).run(
        FedBOSS(bootstrap=2, scoring=Scoring(restarts=0))
    )
    assert found.finding.details["incomplete_columns"] == sorted([first, last])
    (said,) = warned(found)
    assert said.startswith(f"Some sites miss values of {', '.join(sorted([first, last]))}.")
    left = [own.getMessage() for own in caplog.records if own.name == "cipherdag.site"]
    assert len(left) == 3  # once at every site, not for every replicate
    assert all("rows miss a value" in own for own in left)
    caplog.clear()
    found = Federation.split(whole, 3, seed=2).run(FedBOSS())
    assert "incomplete_columns" not in found.finding.details
    assert not warned(found)
    assert "miss a value" not in caplog.text


def wards(rows=1500, seed=4):
    """Numbers a -> b <- ward, ward -> smokes -> c, and d without any cause or effect."""
    rng = np.random.default_rng(seed)
    ward = rng.integers(0, 3, rows)
    smokes = rng.random(rows) < np.array([0.2, 0.5, 0.8])[ward]
    a, d = rng.normal(size=(2, rows))
    b = 0.7 * a + np.array([0.0, 1.0, -1.0])[ward] + rng.normal(size=rows)
    c = 0.9 * smokes + rng.normal(size=rows)
    ward, smokes = np.array(["north", "south", "west"])[ward], np.where(smokes, "yes", "no")
    return pd.DataFrame({"ward": ward, "smokes": smokes, "a": a, "b": b, "c": c, "d": d})


@pytest.mark.parametrize("within", [False, True])
def test_columns_of_both_kinds_are_scored_by_the_sites(within):
    outcome, asked = learn(replace(SUMS, within_sites=within), wards(), 3)
    edges = {(u, v) for u, v in np.argwhere(outcome.arcs).tolist()}
    a, b, c, _, smokes, ward = range(6)
    assert edges == {(a, b), (ward, b), (ward, smokes), (smokes, ward), (smokes, c), (c, smokes)}
    assert outcome.sets["sites"] == len(set(sets_of(asked, "LogLikelihoods")))
    assert not outcome.effects


def test_independent_numbers_of_few_rows_have_hardly_an_edge():
    rng = np.random.default_rng(5)
    rows = pd.DataFrame(rng.normal(size=(80, 60)), columns=[f"v{k:02}" for k in range(60)])
    assert learn(FedBOSS(scoring=Scoring(restarts=0)), rows, 4)[0].dag.sum() <= 3


def test_a_negative_seed_is_refused():
    with pytest.raises(ParameterError, match="negative"):
        learn(FedBOSS(), numbers(), 3, seed=-1)


def shifted(kind, sites=8, rows=400):
    """Independent columns whose means, or shares, are a site's own."""
    rng = np.random.default_rng(11)
    frames = {}
    for k in range(sites):
        if kind == "numbers":
            own = rng.normal(size=(rows, 4)) + rng.normal(0.0, 0.7, 4)
            frames[f"site{k}"] = pd.DataFrame(own, columns=list("abcd"))
        else:
            own = rng.random((rows, 4)) < rng.uniform(0.2, 0.8, 4)
            frames[f"site{k}"] = pd.DataFrame(np.where(own, "yes", "no"), columns=list("abcd"))
    return frames


@pytest.mark.parametrize("kind", ["numbers", "categories"])
def test_differences_between_sites_are_no_evidence_within_them(kind):
    policy = Policy(questions=QUESTION_KINDS, min_cell_size=0)
    federation = Federation.simulate(shifted(kind), policy=policy, device="cpu")
    pooled = federation.run(FedBOSS(within_sites=False))
    within = federation.run(FedBOSS(reveal="sums"))
    assert pooled.finding.graph.edges
    (warning,) = pooled.report.warnings
    assert "are distributed differently at the sites, beyond chance" in warning
    assert "run without --no-within-sites" in warning
    assert not within.report.warnings
    assert "no evidence of an edge" in str(within.report.notes)
    compared = within.table("site_differences")
    assert set(compared["variable"]) == set("abcd")
    assert compared["differs"].all()
    assert not within.finding.graph.edges
    between = "columns whose levels differ between sites depend on each other"
    assert any(between in own for own in pooled.report.limits)
    assert not any(between in own for own in within.report.limits)
    unsure = "How sure edges and arrows are was not computed"
    assert any(unsure in own for own in within.report.limits) == (kind == "categories")


def test_units_of_a_site_change_no_graph():
    whole = numbers()
    sites = {f"site{k}": whole.iloc[k::3] for k in range(3)}
    units = dict(zip("abcde", (0.5, 4.0, 1.0, 0.25, 2.0), strict=True))
    other = sites | {"site1": sites["site1"] * pd.Series(units)}
    first, second = (Federation.simulate(own).run(FedBOSS()) for own in (sites, other))
    assert str(first.finding.graph) == str(second.finding.graph)
    assert len(second.finding.graph.edges) == 4


def test_knowledge_is_kept_and_directs():
    federation = Federation.split(numbers(), 3, seed=0)
    known = Knowledge(tiers=(("a",), ("b", "c", "d", "e")), forbidden=(("c", "d"),))
    graph = federation.run(FedBOSS(knowledge=known)).finding.graph
    assert ("a", "b") in graph.directed
    assert ("c", "d") not in graph.directed
    required = Knowledge(required=(("a", "e"),))
    assert ("a", "e") in federation.run(FedBOSS(knowledge=required)).finding.graph.directed
    with pytest.raises(ParameterError, match="no variable"):
        federation.run(FedBOSS(knowledge=Knowledge(required=(("a", "z"),))))


def test_the_report_has_scores_of_starts_and_worth_of_edges():
    result = Federation.split(numbers(), 3, seed=0).run(FedBOSS(scoring=Scoring(restarts=4)))
    # the first start, and three times as many restarts that gain nothing, as variables are few
    assert len(result.finding.details["score_curve"]) == 1 + 3 * 4
    assert result.finding.details["score_curve"][-1] == result.finding.details["score"]
    for edge in result.finding.graph.edges:
        assert result.finding.evidence.of(edge.source, edge.target).strength > 10.0


def test_edges_of_a_chain_come_back_where_sites_draw_their_rows_anew():
    federation = Federation.split(numbers(), 3, seed=0)
    result = federation.run(FedBOSS(bootstrap=20), seed=4)
    confidence = result.table("confidence")
    strong = confidence[confidence["any_edge"] >= 0.9]
    assert {frozenset(own) for own in zip(strong["from"], strong["to"], strict=True)} >= {
        frozenset(pair) for pair in ("ab", "bc", "cd", "de")
    }
    plain = federation.run(FedBOSS(), seed=4)
    assert len(result.rounds) <= 2 * len(plain.rounds) + 6
    assert str(plain.finding.graph) == str(result.finding.graph)
    assert any("drew anew" in said for said in result.disclosures)


def test_an_arrow_that_most_graphs_that_fit_lack_is_named():
    rng = np.random.default_rng(2)
    frames = {}
    for site in ("graz", "kiel", "lund"):
        a, b = rng.normal(size=(2, 60))
        frames[site] = pd.DataFrame({"a": a, "b": b, "c": a + b + rng.normal(size=60)})
    result = Federation.simulate(frames, device="cpu").run(FedBOSS())
    found = result.finding
    assert {(edge.source, edge.target) for edge in found.graph.edges} == {("a", "c"), ("b", "c")}
    assert not any("Fewer than half" in limit for limit in result.report.limits)
    turned = GraphSample(found.sample.nodes, found.sample.arcs.transpose(0, 2, 1))
    limits = reported(found.with_sample(turned), pooled=False).limits
    (said,) = (limit for limit in limits if "Fewer than half" in limit)
    assert "here: a --> c, b --> c. Read" in said
