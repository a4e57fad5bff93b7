"""Questions by name: published examples, words, errors, and laws of names and orders."""

import numpy as np
import pytest
from enumeration import every_extension
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_effects import LinearModel, reached
from oracle import random_dag

from cipherdag import CausalGraph, Knowledge
from cipherdag.errors import GraphError, ParameterError
from cipherdag.graphs.identification.answers import Identified, NotIdentified, PossibleSets
from cipherdag.graphs.networks import asia
from cipherdag.graphs.orientation import cpdag_of

seeds = st.integers(0, 100_000)


def drawn(text):
    """A graph from "a>b b-c", with names of any length."""
    directed = [tuple(edge.split(">")) for edge in text.split() if ">" in edge]
    undirected = [tuple(edge.split("-")) for edge in text.split() if "-" in edge]
    nodes = {name for edge in (*directed, *undirected) for name in edge}
    return CausalGraph.from_edges(nodes, directed, undirected)


def from_pcalg(*rows):
    """A matrix of pcalg's documentation: its columns are our rows."""
    return CausalGraph.from_arcs([str(v + 1) for v in range(len(rows))], rows)


# Shrier and Platt, BMC Medical Research Methodology 8:70 (2008), as dagitty has it
SHRIER = drawn(
    "Coach>Fitness Coach>Motivation Genetics>Fitness Genetics>Fatigue Genetics>Tissue "
    "Motivation>PreviousInjury Motivation>WarmUp PreGame>WarmUp Tissue>Weakness Tissue>Fatigue "
    "Contact>IntraGame Contact>PreviousInjury Weakness>Injury IntraGame>Injury Fitness>PreGame "
    "Fitness>Fatigue Fatigue>IntraGame Fatigue>Injury WarmUp>IntraGame"
)


def test_dagittys_examples():
    hidden = ["Genetics", "Tissue", "IntraGame"]
    sets = SHRIER.identify("WarmUp", "Injury", unobserved=hidden).sets
    assert {("Coach", "Fitness"), ("Fitness", "Motivation"), ("Fatigue", "Weakness")} <= set(sets)
    assert SHRIER.is_adjustment_set("WarmUp", "Injury", ["Fitness", "Fatigue", "Weakness"])
    graph = drawn("S>T h>S i>h i>T x>S x>z z>T")
    assert graph.identify("S", "T").sets == (("h", "x"), ("h", "z"), ("i", "x"), ("i", "z"))
    m_bias = drawn("u>x u>m v>m v>y x>y")
    assert m_bias.identify("x", "y").sets == ((),)
    assert not m_bias.is_adjustment_set("x", "y", ["m"])
    assert m_bias.is_adjustment_set("x", "y", ["m", "u"])
    assert m_bias.is_adjustment_set("x", "y", ["m", "v"])


def test_dagittys_instruments():
    graph = drawn("w>z z>x x>y w>u u>x u>y")
    answer = graph.identify("x", "y", unobserved=["u"], linear=True)
    assert [str(own) for own in answer.instruments] == ["z given w"]
    graph = drawn("z>x x>y u>x u>y")
    answer = graph.identify("x", "y", unobserved=["u"], linear=True)
    assert [str(own) for own in answer.instruments] == ["z"]
    assert "instrument z" in str(answer)


def test_pcalgs_examples():
    """Perkovic et al. (2015), example 4.1, and Perkovic et al. (2017), example 4.7."""
    first = from_pcalg(
        (0, 1, 1, 0, 0, 0),
        (1, 0, 1, 1, 1, 0),
        (0, 0, 0, 0, 0, 1),
        (0, 1, 1, 0, 1, 1),
        (0, 1, 0, 1, 0, 1),
        (0, 0, 0, 0, 0, 0),
    )
    for good in ("24", "45", "124", "145", "245", "1245"):
        assert first.is_adjustment_set("3", "6", list(good))
    assert not first.is_adjustment_set("3", "6", ["2"])
    assert not first.is_adjustment_set("3", "6", [])
    assert first.identify("3", "6").sets == (("2", "4"), ("4", "5"))
    assert first.identify("3", "6").optimal == ("4", "5")
    open_one = from_pcalg((0, 1, 0, 0), (1, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0))
    assert isinstance(open_one.identify("2", "4"), PossibleSets)
    known = from_pcalg((0, 1, 0, 0), (0, 0, 1, 1), (0, 0, 0, 1), (0, 0, 1, 0))
    assert open_one.with_knowledge(Knowledge(required=(("1", "2"),))) == known
    assert known.identify("2", "4").sets == ((),)
    backwards = from_pcalg((0, 0, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1), (0, 1, 1, 0))
    assert not backwards.is_adjustment_set("2", "4", [])
    assert backwards.identify("2", "4").method == "no effect"


def test_pearls_front_door():
    graph = drawn("Genes>Smoking Genes>Cancer Smoking>Tar Tar>Cancer")
    answer = graph.identify("Smoking", "Cancer", unobserved=["Genes"])
    assert (answer.method, answer.sets) == ("front door", (("Tar",),))
    hidden = graph.identify("Smoking", "Cancer", unobserved=["Genes", "Tar"])
    assert hidden.open_path == ("Smoking", "Genes", "Cancer")
    assert "adjusting for nothing leaves the path Smoking <-- Genes --> Cancer open" in hidden.why


def test_why_names_what_the_path_is_open_given():
    graph = drawn("u>x u>m v>m v>y x>y m>x m>y z>x")
    answer = graph.identify("x", "y", unobserved=["u", "v"])
    assert (answer.open_path, answer.given) == (("x", "u", "m", "v", "y"), ("m", "z"))
    assert "adjusting for m, z leaves the path x <-- u --> m <-- v --> y open" in answer.why
    assert "if all effects are linear, z is an instrument (linear=True)" in answer.why


def test_hidden_causes_in_every_dag_of_a_class_are_not_identified():
    cpdag = drawn("a-x a-y x-y")
    answer = cpdag.identify("x", "y", unobserved=["a"])
    # where y or nothing hidden causes x, the effect is known; else a stays open
    kinds = {own.parents: type(own.answer) for own in answer.possibilities}
    assert kinds == {
        (): Identified,
        ("a",): NotIdentified,
        ("y",): Identified,
        ("a", "y"): Identified,
    }
    known = cpdag.with_knowledge(Knowledge(required=(("a", "x"), ("a", "y"))))
    refused = known.identify("x", "y", unobserved=["a"])
    assert isinstance(refused, PossibleSets)
    further = known.with_knowledge(Knowledge(required=(("x", "y"),)))
    assert isinstance(further.identify("x", "y", unobserved=["a"]), NotIdentified)


def test_words_of_every_answer():
    graph = asia().graph
    assert str(graph.identify("Bronchitis", "Dyspnoea")) == (
        "the effect of Bronchitis on Dyspnoea is identified: adjust for TubOrCancer, "
        "which gives the narrowest interval as a rule; or for LungCancer; or for Smoking"
    )
    assert "has no effect" in str(graph.identify("XRay", "Smoking"))
    lines = str(graph.to_cpdag().identify("Bronchitis", "Dyspnoea")).splitlines()
    assert lines[1].startswith("  if Bronchitis has no direct cause (2 DAGs): ")
    assert "adjust for Tuberculosis, which" in lines[1]
    assert lines[1].endswith("; or for nothing")
    assert lines[0].endswith("is one of 2: Bronchitis --- Smoking is not directed")
    assert lines[2].startswith("  if the direct cause of Bronchitis is Smoking (4 DAGs): ")
    not_identified = str(drawn("u>x u>y x>y").identify("x", "y", unobserved=["u"]))
    assert not_identified.startswith("the effect of x on y is not identified: adjusting for")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"treatment": "z", "outcome": "b"}, "'z' is no variable"),
        ({"treatment": "a", "outcome": "a"}, "'a' is named twice"),
        ({"treatment": "a", "outcome": "b", "unobserved": ["q"]}, "'q' is no variable"),
        ({"treatment": "a", "outcome": "b", "unobserved": ["b"]}, "'b' cannot be among"),
        ({"treatment": "a", "outcome": "b", "unobserved": "c"}, "give a list"),
    ],
)
def test_questions_that_make_no_sense_are_named(arguments, said):
    with pytest.raises(ParameterError, match=said):
        drawn("a>b b>c").identify(**arguments)


def test_a_cycle_is_named():
    with pytest.raises(GraphError, match="'a' --> 'b' --> 'c' --> 'a'"):
        drawn("a>b b>c c>a").identify("a", "b")


@settings(max_examples=80)
@given(seeds)
def test_the_order_of_the_variables_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    dag = random_dag(n, float(rng.uniform(1, n - 1)), rng)
    names = list("abcdefgh"[:n])
    arcs = dag if rng.random() < 0.5 else cpdag_of(dag)
    order = rng.permutation(n)
    here = CausalGraph.from_arcs(names, arcs)
    there = CausalGraph.from_arcs([names[v] for v in order], arcs[np.ix_(order, order)])
    x, y, *hidden = rng.permutation(names).tolist()
    more = {"unobserved": hidden[:2], "linear": True}
    assert here.identify(x, y, **more) == there.identify(x, y, **more)


@settings(max_examples=80)
@given(seeds)
def test_names_change_nothing_but_names(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    dag = random_dag(n, float(rng.uniform(1, n - 1)), rng)
    names = list("abcdefgh"[:n])
    others = dict(zip(names, rng.permutation(names).tolist(), strict=True))
    graph = CausalGraph.from_arcs(names, dag)
    x, y = rng.permutation(names)[:2].tolist()
    here, there = graph.identify(x, y), graph.relabel(others).identify(others[x], others[y])
    renamed = {tuple(sorted(others[v] for v in own)) for own in here.sets}
    assert (here.method, renamed) == (there.method, set(there.sets))
    if here.optimal is not None:
        assert tuple(sorted(others[v] for v in here.optimal)) == there.optimal


@settings(max_examples=60)
@given(seeds)
def test_ida_by_its_sets_gives_the_effects_in_all_dags_of_the_class(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 7))
    dag = random_dag(n, float(rng.uniform(1, n - 1)), rng)
    graph = CausalGraph.from_arcs("abcdefg"[:n], cpdag_of(dag))
    x, y = rng.permutation(n)[:2].tolist()
    answer = graph.identify(graph.nodes[x], graph.nodes[y])
    if not isinstance(answer, PossibleSets):
        return
    model = LinearModel(dag, rng)
    found = []
    for own in answer.possibilities:
        effect = 0.0
        if own.answer.method == "adjustment":
            chosen = [graph.nodes.index(v) for v in own.answer.chosen]
            effect = model.coefficient(x, y, chosen)
            for given in own.answer.sets:
                other = model.coefficient(x, y, [graph.nodes.index(v) for v in given])
                np.testing.assert_allclose(other, effect, atol=1e-7)
        found += [effect] * own.n_dags
    wanted = []
    for other in every_extension(graph.arcs):
        parents = np.flatnonzero(other[:, x]).tolist()
        caused = y not in parents and reached(other)[x, y]
        wanted.append(model.coefficient(x, y, parents) if caused else 0.0)
    np.testing.assert_allclose(sorted(found), sorted(wanted), atol=1e-7)
