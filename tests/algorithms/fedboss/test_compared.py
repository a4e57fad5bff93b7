"""FedBOSS by bits: no move raises the score, bits alone are opened, small counts cost nothing."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from driving import outcome_of
from hypothesis import given, settings
from hypothesis import strategies as st
from simulating import driven, view_of

from cipherdag import FedBOSS, Federation, FedPC, Knowledge, Policy, Scoring
from cipherdag.algorithms.fedboss.compared_scores import Gain
from cipherdag.algorithms.fedboss.compared_search import ClassSearch, start_of
from cipherdag.errors import ParameterError
from cipherdag.graphs.dags import dag_of, matrix_of, members, topological
from cipherdag.graphs.equivalence import PHASES, neighbouring
from cipherdag.graphs.networks import asia
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.scores.likelihoods import LogLikelihoods, ScoreComparisons

BITS = FedBOSS(reveal="bits")
DISCOUNT = 3


def patients(rows=3000, columns=8):
    return asia().sample(rows, np.random.default_rng(1)).iloc[:, :columns]


def learn(algorithm, data, sites=3, *, min_cell_size=0):
    """The outcome and the questions over plain sums."""
    federation = Federation.split(data, sites, seed=2)
    outcome, asked = driven(algorithm, federation, least=min_cell_size, min_contributors=1)
    return outcome, asked, [site.table for site in federation.sites]


def likelihood(codes, chosen):
    """A site's log likelihood of some columns, less the discount: counted, by the formula."""
    if not chosen:
        return 0.0
    _, counts = np.unique(codes[:, chosen], axis=0, return_counts=True)
    rows = len(codes)
    total = sum(float(n) * math.log(n / rows) for n in counts.tolist())
    return total - DISCOUNT * (len(counts) - 1) / 2.0


def regret(rows, cells):
    """ln of the number of parameters that rows can tell: Szpankowski and Weinberger's formula."""
    if cells <= 1:
        return 0.0
    a = cells / rows
    c = 0.5 + 0.5 * math.sqrt(1.0 + 4.0 / a)
    return rows * (math.log(a) + (a + 2.0) * math.log(c) - 1.0 / c) - 0.5 * math.log(c + 2.0 / a)


def score(dag, tables):
    """The score of a graph of categories over all sites, in nats, up to rounding."""
    rows = sum(len(own.codes) for own in tables)
    levels = np.array(view_of(tables[0]).categories)
    total = 0.0
    for v, parents in enumerate(dag):
        for sign, chosen in ((1, sorted([v, *members(parents)])), (-1, list(members(parents)))):
            own = sum(likelihood(table.codes, chosen) for table in tables)
            total += sign * (own - regret(rows, float(np.prod(levels[chosen]))))
        total -= math.log(len(dag)) * parents.bit_count()
    return total


@pytest.mark.parametrize("min_cell_size", [0, 11])
def test_no_single_move_raises_the_score_by_the_formulas(min_cell_size):
    outcome, _, tables = learn(BITS, patients(columns=6), min_cell_size=min_cell_size)
    dag = dag_of(outcome.dag)
    reached = score(dag, tables)
    others = [other for phase in PHASES for other in neighbouring(dag, phase).values()]
    assert len(others) > 20
    assert all(score(other, tables) < reached + 0.05 for other in others)
    assert reached > score(dag_of(np.zeros_like(outcome.dag)), tables) + 100.0


def test_it_finds_what_opened_scores_do_and_opens_bits_alone():
    rows = patients()
    outcome, asked, _ = learn(BITS, rows)
    opened, _, _ = learn(FedBOSS(reveal="sums"), rows)
    assert (outcome.arcs == opened.arcs).all()
    assert outcome.compared > 0
    assert not outcome.curve
    sums = [type(part).__name__ for own in asked for part in own.parts if not part.opens_bits]
    assert set(sums) <= {"Columns"}
    compared = [part for own in asked for part in own.parts if isinstance(part, ScoreComparisons)]
    assert sum(own.n_verdicts for own in compared) == outcome.compared


def test_a_site_that_restricts_small_counts_changes_no_bit():
    rows = patients()
    free, asked, _ = learn(BITS, rows)
    restricted, others, _ = learn(BITS, rows, min_cell_size=11)
    assert (free.dag == restricted.dag).all()
    assert [own.label for own in asked if own.opens_bits] == [
        own.label for own in others if own.opens_bits
    ]


def test_no_comparison_is_asked_twice():
    _, asked, _ = learn(BITS, patients())
    asked_before = []
    for own in asked:
        if isinstance(own, ScoreComparisons):
            sets = [tuple(row) for rows in own.question.sets() for row in rows.tolist()]
            terms, constants = own.term_array(), np.frombuffer(own.constants, dtype="<i8").tolist()
            for number, constant in enumerate(constants):
                of_form = terms[terms[:, 0] == number]
                form = frozenset((sets[place], size) for _, place, size in of_form.tolist())
                asked_before.append((form, constant))
    assert len(asked_before) == len(set(asked_before)) > 28


def test_by_default_only_scores_of_numbers_are_opened():
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.normal(size=(900, 3)), columns=list("abc"))
    numbers["b"] += numbers["a"]
    mixed = numbers.assign(kind=np.where(numbers["b"] > 0, "high", "low"))
    for data, compared in ((numbers, False), (mixed, True), (patients(), True)):
        outcome, _, _ = learn(FedBOSS(), data)
        assert (outcome.compared is not None) == compared
        assert outcome.dag.any()
    assert learn(FedBOSS(within_sites=False), patients())[0].compared is None
    assert learn(FedBOSS(), patients(), 1)[0].compared is None  # one site alone has no comparison
    assert learn(BITS, numbers)[0].compared > 0


def test_bits_need_scores_within_sites_and_two_sites():
    with pytest.raises(ParameterError, match="reveal bits needs within_sites"):
        FedBOSS(reveal="bits", within_sites=False)
    with pytest.raises(ParameterError, match="needs 2 sites"):
        learn(BITS, patients(), 1)


def test_knowledge_holds_from_the_first_graph_to_the_last():
    rows = patients()
    known = Knowledge(
        forbidden=(("Smoking", "Bronchitis"), ("Bronchitis", "Smoking")),
        required=(("VisitToAsia", "Smoking"),),
    )
    outcome, _, tables = learn(replace(BITS, knowledge=known), rows)
    names = tables[0].names
    asia_visit, smoking, bronchitis = map(names.index, ("VisitToAsia", "Smoking", "Bronchitis"))
    assert outcome.dag[asia_visit, smoking]
    assert not outcome.dag[smoking, bronchitis]
    assert not outcome.dag[bronchitis, smoking]


@settings(deadline=None, max_examples=80)
@given(st.integers(2, 7), st.integers(0, 2**32))
def test_a_search_starts_from_the_class_of_tests_or_has_its_edges(n_variables, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(n_variables)
    dag = np.triu(rng.random((n_variables,) * 2) < 0.4, 1)[np.ix_(order, order)]
    arcs = cpdag_of(dag)
    start = start_of(arcs, lambda own: own, (0,) * n_variables)
    assert (cpdag_of(matrix_of(start)) == arcs).all()
    wrong = np.triu(rng.random((n_variables,) * 2) < 0.5, 1)
    wrong = wrong | np.where(rng.random(wrong.shape) < 0.5, wrong, False).T
    start = matrix_of(start_of(wrong, lambda own: own, (0,) * n_variables))
    assert len(topological(dag_of(start))) == n_variables
    assert ((start | start.T) == (wrong | wrong.T)).all()


def test_a_budget_ends_the_search_with_the_graph_so_far():
    whole, _, _ = learn(BITS, patients())
    cut, asked, _ = learn(replace(BITS, scoring=Scoring(max_rounds=1)), patients())
    assert not whole.cut_short
    assert cut.cut_short
    assert sum(isinstance(own, ScoreComparisons) for own in asked) == 1


class Contradicting:
    """Says of every change that it gains, as sites make it whose numbers differ from time to time.

    Attributes:
        penalty: Of three columns with two categories each.
    """

    penalty = SimpleNamespace(categories=np.array([2, 2, 2]), cells=lambda _: 1)

    def gaining(self, changes):
        yield from ()
        return {change: Gain(((1, 1),), k) for k, change in enumerate(changes)}

    def larger(self, pairs):
        yield from ()
        return [True] * len(pairs)


def test_comparisons_that_contradict_each_other_end_the_search():
    search = ClassSearch(
        Contradicting(),
        [0b110, 0b101, 0b011],
        max_cells=8,
        max_parents=2,
        permitted=lambda own: own,
    )
    assert len(outcome_of(search.best((0, 0, 0)))) == 3


def test_a_plan_says_what_the_tests_before_the_search_open():
    for algorithm in (FedBOSS(), BITS):
        assert {*FedPC(reveal="bits").disclosures()} < {*algorithm.disclosures()}
    alone = {*LogLikelihoods.discloses}
    assert alone < {*FedBOSS().disclosures()}
    assert not alone & {*BITS.disclosures()}


def test_edges_not_compared_for_the_budget_are_not_said_to_score():
    result = Federation.split(patients(1200, 5), 3, seed=2).run(
        replace(BITS, scoring=Scoring(max_rounds=1))
    )
    facts = {fact for edge in result.finding.evidence.edges for fact in edge.facts}
    assert facts == {"The search ended before it had compared the score without it."}


def test_the_report_says_that_no_score_was_opened_and_why_edges_stand():
    federation = Federation.split(patients(), 3, seed=2)
    assert federation.sites[0].policy.min_cell_size == 11
    result = federation.run(FedBOSS(bootstrap=2))
    assert any("no score was disclosed" in note.title for note in result.report.notes)
    assert "score" not in result.finding.details
    assert result.finding.opens_bits
    assert result.finding.details["bootstrap"]["replicates"] == 2
    plain = federation.run(FedBOSS())
    facts = {fact for edge in plain.finding.evidence.edges for fact in edge.facts}
    assert facts == {"Without it the score over all sites is lower."}
    assert len(plain.finding.evidence.edges) == len(plain.finding.graph.edges)


def test_real_comparisons_give_the_graph_of_plain_sums():
    rows = patients(1200, 5)
    outcome, _, tables = learn(BITS, rows)
    result = Federation.split(rows, 3, seed=2, policy=Policy(min_cell_size=0)).run(BITS)
    names = tables[0].names
    assert {(names.index(a), names.index(b)) for a, b in result.finding.dag.directed} == {
        tuple(edge) for edge in np.argwhere(outcome.dag).tolist()
    }


def test_items_of_one_factor_take_thousands_of_comparisons():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=2000)
    items = {
        f"item{k}": np.where(1.2 * factor + rng.normal(size=2000) > 0, "yes", "no")
        for k in range(8)
    }
    outcome, _, _ = learn(BITS, pd.DataFrame(items))
    assert outcome.dag.any()
    assert outcome.compared < 20_000


def test_by_bits_nothing_is_asked_of_where_numbers_lie():
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(900, 3)), columns=list("abc"))
    rows["b"] += rows["a"]
    kinds = [own for own in learn(BITS, rows)[1] if isinstance(own, Columns)]
    assert kinds
    assert not any(own.marks or own.few for own in kinds)
    assert any("numbers lie" in each.quantity for each in FedBOSS().disclosures())
    assert not any("numbers lie" in each.quantity for each in BITS.disclosures())


def bounded(most, **own):
    return replace(BITS, scoring=Scoring(max_rounds=most, **own))


def test_bounds_hold_for_the_graph_that_tests_gave_too(monkeypatch):
    for most in (None, 1):  # with one round only the first graph is left
        assert learn(bounded(most), patients())[0].dag.sum(axis=0).max() > 1
        dag = learn(bounded(most, max_parents=1), patients())[0].dag
        assert dag.any()
        assert dag.sum(axis=0).max() == 1
    monkeypatch.setattr("cipherdag.algorithms.fedboss.settings.LARGEST_TABLE", 4)
    _, asked, _ = learn(BITS, patients())
    scored = [part.question for part in asked if isinstance(part, ScoreComparisons)]
    assert max(len(sets[0]) for of in scored for sets in of.sets() if len(sets)) == 2


def test_required_parents_stay_where_they_are_more_than_the_bound():
    causes = ("Smoking", "VisitToAsia")
    known = Knowledge(required=tuple((cause, "Dyspnoea") for cause in causes))
    outcome, _, tables = learn(
        replace(BITS, scoring=Scoring(max_parents=1), knowledge=known), patients()
    )
    names = tables[0].names
    effect = names.index("Dyspnoea")
    assert {names[u] for u in np.flatnonzero(outcome.dag[:, effect])} == {*causes}


def test_a_budget_of_values_counts_comparisons():
    outcome, asked, _ = learn(replace(BITS, scoring=Scoring(max_values=90)), patients())
    spent = [own for own in asked if isinstance(own, ScoreComparisons)]
    values = [sum(own.question.counts) + len(own.constants) // 8 for own in spent]
    assert 0 < sum(values) <= 90
    assert outcome.cut_short
