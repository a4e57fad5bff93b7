"""Questions to a graph by name: what identifies an effect, what adjusts for it, what separates."""

from __future__ import annotations

from collections.abc import Collection

from cipherdag.graphs.identification.adjustment import Adjustment
from cipherdag.graphs.identification.answers import Answer
from cipherdag.graphs.identification.maximal import some_member
from cipherdag.graphs.identification.question import Question
from cipherdag.graphs.identification.separation import connected
from cipherdag.graphs.mixed_graph import MixedGraph


def identify(
    graph: MixedGraph,
    treatment: str,
    outcome: str,
    *,
    unobserved: Collection[str] = (),
    linear: bool = False,
) -> Answer:
    """What identifies the total effect of one variable on another, from the graph alone.

    The graph is a DAG, a CPDAG, or one that background knowledge directs further, and all common
    causes are variables of it. Adjustment is tried first, then in a DAG the front door and, if all
    effects are linear, instruments.

    Args:
        graph: The graph.
        treatment: The cause.
        outcome: The variable that it may act on.
        unobserved: Variables of which there are no data.
        linear: Whether every effect may be taken as linear, so that instruments count.

    Returns:
        `Identified`, or `PossibleSets` where undirected edges leave the effect open (IDA), or
        `NotIdentified`, which says why.

    Raises:
        ParameterError: A name is unknown, or one variable is both treatment and outcome, or one of
            the two is unobserved.
        GraphError: The graph has a directed cycle, stands for no DAG, or is not complete.
    """
    return Question.of(graph, treatment, outcome, unobserved, linear=linear).answer()


def is_adjustment_set(
    graph: MixedGraph, treatment: str, outcome: str, variables: Collection[str]
) -> bool:
    """Whether adjusting for these variables gives the total effect in every DAG of the graph.

    Where the treatment is no cause of the outcome, whether they make the two independent.

    Args:
        graph: As in `identify`.
        treatment: The cause.
        outcome: The variable that it may act on.
        variables: The set to judge.

    Raises:
        ParameterError: As in `identify`, or the set has the treatment or the outcome.
        GraphError: As in `identify`.
    """
    asked = Question.of(graph, treatment, outcome, variables, linear=False)
    return Adjustment(asked.pattern, asked.x, asked.y).valid(asked.others)


def d_separated(graph: MixedGraph, first: str, second: str, given: Collection[str] = ()) -> bool:
    """Whether the graph says that two variables are independent given others.

    All DAGs of a class say the same.

    Args:
        graph: As in `identify`.
        first: A variable.
        second: Another.
        given: The variables given; neither of the two.

    Raises:
        ParameterError: As in `is_adjustment_set`.
        GraphError: As in `identify`.
    """
    asked = Question.of(graph, first, second, given, linear=False)
    dag = some_member(asked.pattern)
    return not connected(dag, asked.x, asked.others) >> asked.y & 1
