"""FedFCI that integrates what groups of sites measured: the truth fits, and what it says is so."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from driving import drive, respondent
from test_fedfci import HiddenOracle, assert_sound, case, true_pag
from test_fedfci_overlap import overlapping

from cipherdag import Federation, FedFCI, Knowledge
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.constraint_based.report import NEVER_TOGETHER, UNTESTED_DETAIL
from cipherdag.algorithms.fedfci import algorithm
from cipherdag.errors import ParameterError
from cipherdag.findings.graph import LearntPAG
from cipherdag.findings.integration import DETAIL, Integrated
from cipherdag.graphs.endpoints import CIRCLE, NONE
from cipherdag.graphs.pag import PAG
from cipherdag.questions.presence import Measured
from cipherdag.results.run import Run
from cipherdag.testing import check_algorithm

LOOKED_AT = 300
ALGORITHM = FedFCI(evidence="fisher", max_cond_size=None, search="integrate")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(algorithm, "MOST_GRAPHS", LOOKED_AT)


def found_of(dag, observed, measured, algorithm=ALGORITHM):
    site = respondent(HiddenOracle(dag, observed))
    n_sites = len(measured.lacking)
    facts = Facts(observed, n_sites, min_contributors=3, measured=measured)
    algorithm.check_measured(measured)
    outcome, asked = drive(algorithm.ask(facts), [site] * n_sites)
    return algorithm.conclude(outcome, facts), outcome, asked, facts


def test_the_true_pag_fits_and_what_is_shown_is_true_of_it():
    complete = several = 0
    for seed in range(40):
        dag, observed, hidden = case(seed, largest=8)
        measured = overlapping(seed, observed)
        if measured.everywhere:
            continue
        found, outcome, _, facts = found_of(dag, observed, measured)
        assert_sound(found.graph.endpoints, dag, observed, hidden)
        assert_sound(outcome.marks, dag, observed, hidden)
        own = Integrated(found.details[DETAIL])
        graphs = own.graphs(facts.names)
        if found.details[DETAIL]["complete"]:
            complete += 1
            several += len(graphs) > 1
            assert PAG(facts.names, true_pag(dag, observed, hidden)) in graphs
            assert UNTESTED_DETAIL not in found.details
        else:
            assert found.details[DETAIL]["looked_at"] == LOOKED_AT
            assert (found.graph.endpoints == outcome.marks).all()
            assert "is not complete" in ALGORITHM.report(found).warnings[-1]
    assert complete > 15
    assert several > 8


def test_every_group_has_its_own_pag(monkeypatch):
    monkeypatch.setattr(algorithm, "MOST_GRAPHS", 1)
    for seed in range(15):
        dag, observed, _ = case(seed, largest=9)
        measured = overlapping(seed, observed)
        for own in found_of(dag, observed, measured, ALGORITHM)[1].groups:
            first = [*own.variables, *(v for v in range(len(dag)) if v not in own.variables)]
            moved = dag[np.ix_(first, first)]
            k = len(own.variables)
            assert (own.endpoints == true_pag(moved, k, len(dag) - k)).all()
            assert measured.has(own.variables)


def test_groups_within_another_one_tell_nothing_more():
    measured = Measured(((0,),) * 3 + ((0, 1),) * 3 + ((2,),) * 3)
    assert measured.sets(4) == ((0, 1, 3), (1, 2, 3))
    assert Measured(((), (), ())).sets(3) == ((0, 1, 2),)
    assert Measured().sets(3) == ((0, 1, 2),)


def test_nothing_is_asked_that_no_site_measured_together():
    dag, observed, _ = case(4)
    measured = overlapping(4, observed)
    asked = found_of(dag, observed, measured)[2]
    tests = [block for question in asked for block in question.question.rows()]
    assert sum(map(len, tests)) > 10
    assert all(measured.together(rows.astype(np.int64)).all() for rows in tests)
    often = Counter(tuple(row) for block in tests for row in block.tolist())
    assert set(often.values()) == {2}  # who contributes is counted, then it is asked, once


def test_sites_agree_on_what_was_found_without_a_search(monkeypatch):
    """However much is looked at later: each takes what the others take."""
    dag, observed, _ = case(3)
    measured = overlapping(3, observed)
    found, outcome, _, facts = found_of(dag, observed, measured)
    told = {ALGORITHM.decisions(outcome, facts)}
    for own in (1, 10, 10**7):
        monkeypatch.setattr(algorithm, "MOST_GRAPHS", own)
        told.add(ALGORITHM.decisions(outcome, facts))
    assert len(told) == 1
    other = replace(outcome.groups[0], endpoints=np.zeros_like(outcome.groups[0].endpoints))
    changed = replace(outcome, groups=(other, *outcome.groups[1:]))
    assert ALGORITHM.decisions(changed, facts) not in told
    assert found.decisions


@pytest.mark.parametrize(
    "more",
    [{"knowledge": Knowledge(tiers=(("1",), ("2",)))}, {"selection": True}, {"bootstrap": 2}],
)
def test_what_it_cannot_take_is_refused(more):
    with pytest.raises(ParameterError, match="integrate goes through graphs without selection"):
        FedFCI(search="integrate", **more)


def test_nothing_is_integrated_where_all_was_measured_together():
    with pytest.raises(ParameterError, match="nothing to integrate"):
        ALGORITHM.check_measured(Measured(((),) * 3))
    with pytest.raises(ParameterError, match="choose search fci"):
        FedFCI(search="rfci").check_measured(Measured(((0,),) * 3 + ((1,),) * 3))


def wards(rng, rows=(700, 700), *, turned=False):
    """What the page on different columns has; `turned`: at the second group nothing is a cause."""
    frames = {}
    for k, name in enumerate(("graz", "kiel", "lund", "aspen", "brig", "como")):
        n = rows[k // 3]
        age, salt = rng.normal(size=(2, n))
        pressure = 0.8 * age + 0.8 * salt + rng.normal(size=n)
        if turned and k >= 3:
            pressure = rng.normal(size=n)
            age, salt = pressure + rng.normal(size=(2, n))
        echo = 0.9 * pressure + rng.normal(size=n)
        walk = rng.normal(size=n) - 0.6 * pressure - 0.6 * age
        columns = {"Age": age, "Salt": salt, "Pressure": pressure, "Echo": echo, "Walk": walk}
        frames[name] = pd.DataFrame(columns).drop(columns="Walk" if k < 3 else "Echo")
    return frames


def test_a_result_has_all_graphs_and_keeps_them(tmp_path):
    federation = Federation.simulate(wards(np.random.default_rng(1)), overlapping=True)
    result = federation.run(FedFCI(search="integrate"))
    told = result.finding.details[DETAIL]
    assert told["complete"]
    assert len(result.finding.fitting) == len(told["graphs"]) > 1
    assert all(own.nodes == result.finding.graph.nodes for own in result.finding.fitting)
    joined = {frozenset((e.source, e.target)) for own in result.finding.fitting for e in own.edges}
    assert joined == {frozenset((e.source, e.target)) for e in result.finding.graph.edges}
    assert [own["variables"] for own in told["groups"]] == [
        ["Age", "Echo", "Pressure", "Salt"],
        ["Age", "Pressure", "Salt", "Walk"],
    ]
    facts = {frozenset((e.source, e.target)): e.facts for e in result.finding.evidence.edges}
    assert any(
        "graphs that fit have an edge here." in own for own in facts[frozenset(("Echo", "Walk"))]
    )
    assert NEVER_TOGETHER not in facts[frozenset(("Echo", "Walk"))]
    assert not result.report.warnings
    assert "Graphs that fit" in result.page()
    result.save(tmp_path / "out")
    again = Run.load(tmp_path / "out", LearntPAG)
    assert again.finding.fitting == result.finding.fitting
    assert "and no other" in str(again.report.notes)
    plain = federation.run(FedFCI())
    assert plain.finding.fitting == ()
    sure = (result.finding.graph.endpoints != CIRCLE) & (result.finding.graph.endpoints != NONE)
    assert (
        sure.sum()
        >= (
            (plain.finding.graph.endpoints != CIRCLE) & (plain.finding.graph.endpoints != NONE)
        ).sum()
    )


def test_it_keeps_the_laws_of_algorithms():
    data = wards(np.random.default_rng(1), (300, 300))
    schema = Federation.simulate(data, overlapping=True).sites[0].table.schema
    check_algorithm(FedFCI(search="integrate"), data, schema=schema)


def test_groups_that_contradict_one_another_are_told():
    data = wards(np.random.default_rng(2), (4000, 700), turned=True)
    result = Federation.simulate(data, overlapping=True).run(FedFCI(search="integrate"))
    assert result.finding.details[DETAIL]["complete"]
    assert not result.finding.fitting
    warned = [own for own in result.report.warnings if own.startswith("No graph over all columns")]
    assert len(warned) == 1
    assert UNTESTED_DETAIL in result.finding.details


def test_a_group_that_contradicts_itself_is_named():
    apart = {"variables": ["A", "B"], "edges": [], "consistent": False}
    told = Integrated({"complete": True, "looked_at": 0, "graphs": [], "groups": [apart]})
    report = told.report()
    assert "Those of A, B do so by themselves." in report.warnings[0]
    assert not report.notes
    assert told.edge_sentence("A", "B") == ""
    assert not report.panels[0].rows
