"""What an effect may be adjusted for, as one text: parameters travel as words and numbers.

One set is names with commas between them, or a list of names in JSON; several sets, one for every
group of DAGs that a graph leaves possible, are a list of objects in JSON. Where small counts at the
sites stop an effect, its error names smaller sets that would work.
"""

import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.parameters import require
from cipherdag.arrays import FloatVector
from cipherdag.errors import DataError, GraphError, ParameterError
from cipherdag.findings.effect import NO_EFFECT
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.graph_sample import GraphSample
from cipherdag.graphs.identification.answers import Answer, Identified, NotIdentified, PossibleSets
from cipherdag.graphs.identification.query import parent_sets
from cipherdag.pages.files import from_json
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.questions.gather import gather
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import ContributorCounts

Names = tuple[str, ...]
MOST_SETS = 12
LEAST_SET = 0.02  # share of the graphs of a sample below which a set is counted with another one
LEAST_CAUSED = 0.05


@dataclass(frozen=True, slots=True)
class PossibleSet:
    """One set of variables to adjust for."""

    adjust: Names = ()  # their names
    parents: Names | None = None  # the treatment's direct causes in these DAGs; None of an only set
    n_dags: int | None = None  # number of the DAGs that need this set, if known
    why: str = ""  # empty, or why there is nothing to estimate in them
    share: float | None = None  # of a sample of graphs that say so; None without a sample


def read_sets(text: str) -> tuple[PossibleSet, ...]:
    """The adjustment sets that a text states; ParameterError where it says none."""
    if not text.strip().startswith("["):
        names = tuple(name.strip() for name in text.split(","))
        return (PossibleSet(() if names == ("",) else names),)
    try:
        decoded = from_json(text, list[str | PossibleSet])
    except ValueError as error:
        raise ParameterError(
            "adjust is no list of names in JSON",
            remedy='Write a,b for two names; where a name has a comma, in JSON: ["a","b"].',
        ) from error
    sets = tuple(one for one in decoded if isinstance(one, PossibleSet))
    return sets or (PossibleSet(tuple(name for name in decoded if isinstance(name, str))),)


def sets_of(graphs: Sequence[CausalGraph] | GraphSample, treatment: str, outcome: str) -> str:
    """The sets of a sample of graphs, or those of several learnt graphs joined, as text."""
    if isinstance(graphs, GraphSample):
        return sampled_sets(graphs, treatment, outcome)
    return joined_sets(graphs, treatment, outcome)


def joined_sets(graphs: Iterable[CausalGraph], treatment: str, outcome: str) -> str:
    """The possible sets of the treatment's causes in several graphs, as text for `read_sets`.

    Causes depend on few edges of a graph, so that one wrong edge changes few of these sets. Graphs
    that stand for no class of DAGs say nothing. ParameterError where no graph says anything, or has
    these variables.
    """
    sets: dict[Names, PossibleSet] = {}
    for graph in graphs:
        require({treatment, outcome} <= {*graph.nodes}, "the graphs need treatment and outcome")
        with suppress(GraphError):
            for parents in parent_sets(graph, treatment):
                if outcome not in parents:
                    sets.setdefault(parents, PossibleSet(parents, parents))
            if any(one.why == NO_EFFECT for one in _possible(graph.identify(treatment, outcome))):
                sets.setdefault((NO_EFFECT,), PossibleSet(why=NO_EFFECT))
    require(bool(sets), "no graph stands for a class of DAGs, so that none says what to adjust for")
    return msgspec.json.encode([*sets.values()]).decode()


def sampled_sets(sample: GraphSample, treatment: str, outcome: str) -> str:
    """The direct causes of the treatment in graphs where it causes the outcome, for `read_sets`.

    Each set has its share of all graphs. Those of few graphs are counted with the set that differs
    in the fewest variables. ParameterError where hardly any graph has the effect, or one has no
    such variable.
    """
    require(treatment != outcome, "treatment and outcome are to be different variables")
    try:
        counts = sample.parents_with_path(treatment, outcome)
    except GraphError as error:
        raise ParameterError(str(error), remedy=error.remedy) from error
    caused = sum(counts.values())
    if caused < LEAST_CAUSED * len(sample):
        raise ParameterError(
            f"'{treatment}' causes '{outcome}' in {caused} of {len(sample)} graphs that fit the "
            "data, too few to say how strongly",
            remedy="If you know that it is a cause, give that as knowledge before the graph is "
            "learnt, or name adjust yourself.",
        )
    ranked = sorted(counts, key=lambda parents: (-counts[parents], parents))
    large = [one for one in ranked[:MOST_SETS] if counts[one] >= LEAST_SET * len(sample)]
    chosen = large or ranked[:1]
    shares = dict.fromkeys(chosen, 0)
    for parents in ranked:
        shares[min(chosen, key=lambda one: len({*one} ^ {*parents}))] += counts[parents]
    sets = [PossibleSet(one, one, share=n / len(sample)) for one, n in shares.items()]
    if caused < len(sample):
        sets.append(PossibleSet(why=NO_EFFECT, share=1.0 - caused / len(sample)))
    return msgspec.json.encode(sets).decode()


def written_sets(answer: Answer) -> str:
    """The adjustment sets of a graph in the form that `read_sets` reads.

    ParameterError where it is not identified by adjustment.
    """
    if not isinstance(answer, Identified | PossibleSets | NotIdentified):
        raise ParameterError(
            f"{answer!r} is not what a graph says of an effect",
            remedy="Write Effect(graph.identify(treatment, outcome)), or name treatment, outcome "
            "and adjust.",
        )
    if isinstance(answer, PossibleSets):
        return msgspec.json.encode(_possible(answer)).decode()
    only = _of(answer)
    if only.why == NO_EFFECT:
        raise ParameterError(
            f"{answer}, so that nothing is to be estimated: the effect is 0",
            remedy="To test the graph, name treatment, outcome and adjust yourself.",
        )
    if only.why:
        raise ParameterError(
            only.why,
            remedy="Only adjustment is estimated: name treatment, outcome and adjust, if you have "
            "a set that suffices.",
        )
    return msgspec.json.encode(only.adjust).decode() if only.adjust else ""


def _possible(answer: Answer) -> list[PossibleSet]:
    if not isinstance(answer, PossibleSets):
        return [_of(answer)]
    return [
        replace(_of(one.answer), parents=one.parents, n_dags=one.n_dags)
        for one in answer.possibilities
    ]


def _of(answer: Identified | NotIdentified) -> PossibleSet:
    if isinstance(answer, NotIdentified):
        return PossibleSet(why=str(answer))
    if answer.method == "adjustment":
        return PossibleSet(answer.chosen)
    return PossibleSet(why=NO_EFFECT if answer.method == NO_EFFECT else str(answer))


USUAL_CELL = 11  # the ``min_cell_size`` of a policy that names none
ALONE = "nothing, which compares the arms as they are"


def too_small(
    scope: EffectSums, facts: Facts, rows: int, why: str
) -> Generator[Question, FloatVector, DataError]:
    """The error of an effect that small counts stop, with what would work, after one round.

    Sites say of which sets they could tell: of each column adjusted for alone, of all but one, and
    of none. Each is what a run with that set would have them say first.
    """
    every = tuple(sorted((*scope.adjust, *scope.complete_in)))
    smaller = {*((v,) for v in every), *(tuple(x for x in every if x != v) for v in every), ()}
    sets = sorted(smaller - {every}, key=len, reverse=True)
    fewer = [msgspec.structs.replace(scope, adjust=one, complete_in=()) for one in sets]
    able = yield from gather([_may_tell(each, facts) for each in fewer])
    sizes = [scope.categories[v] for v in (scope.treatment, scope.outcome, *every)]
    cells = math.prod(max(size, 1) for size in sizes)
    needed, held = USUAL_CELL * cells, rows // facts.present.n_sites
    rare = "" if held < needed else ", so some combination is rare"
    return DataError(
        f"no effect is estimated: {why}",
        remedy=f"Adjust for {_named(sets, able, facts)}. Or have {USUAL_CELL} rows of each "
        f"combination of categories at every site: {needed:,} rows if all {cells:,} occur, and "
        f"sites have {held:,} on average{rare}. Where you may see all rows, simulate with "
        "--min-cell-size 1 (Python: Policy(min_cell_size=1)). Another estimator needs the same.",
    )


def _may_tell(scope: EffectSums, facts: Facts) -> Generator[Question, FloatVector, bool]:
    asked = scope.counted_as
    alone = facts.min_contributors <= 1
    counts = np.rint((yield asked if alone else ContributorCounts(question=asked)))
    enough = counts[1:] >= max(facts.min_contributors, 1)
    return bool(counts[0] == facts.present.n_sites and enough.all())


def _named(sets: Sequence[tuple[int, ...]], able: Sequence[bool], facts: Facts) -> str:
    """The largest sets that all sites may tell of."""
    can = [one for one, works in zip(sets, able, strict=True) if works]
    largest = [one for one in can if len(one) == len(can[0])]
    texts = [", ".join(f"'{facts.names[v]}'" for v in one) or ALONE for one in largest]
    return " or for ".join(texts) or "other columns"
