"""What an effect may be adjusted for, as one text: parameters travel as words and numbers.

One set is names with commas between them, or a list of names in JSON; several sets, one for every
group of DAGs that a graph leaves possible, are a list of objects in JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from cipherdag.errors import ParameterError
from cipherdag.findings.effect import NO_EFFECT
from cipherdag.graphs.identification.answers import Answer, Identified, NotIdentified, PossibleSets

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PossibleSet:
    """One set of variables to adjust for.

    Attributes:
        adjust: Their names.
        parents: The direct causes of the treatment in the DAGs that say so; None of the only set.
        n_dags: How many DAGs these are, if known.
        why: Empty, or why there is nothing to estimate in them.
    """

    adjust: Names = ()
    parents: Names | None = None
    n_dags: int | None = None
    why: str = ""


def read_sets(text: str) -> tuple[PossibleSet, ...]:
    """The sets that a text says.

    Raises:
        ParameterError: It says none.
    """
    if not text.strip().startswith("["):
        names = tuple(own.strip() for own in text.split(","))
        return (PossibleSet(() if names == ("",) else names),)
    try:
        found = msgspec.json.decode(text, type=list[str | PossibleSet])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ParameterError(
            "adjust is no list of names in JSON",
            remedy="Write names with commas between them; a name that has one: in JSON.",
        ) from error
    sets = tuple(own for own in found if isinstance(own, PossibleSet))
    return sets or (PossibleSet(tuple(own for own in found if isinstance(own, str))),)


def written_sets(answer: Answer) -> str:
    """What a graph says an effect may be adjusted for, as `read_sets` reads it.

    Raises:
        ParameterError: It is not identified by adjustment.
    """
    if not isinstance(answer, Identified | PossibleSets | NotIdentified):
        raise ParameterError(
            f"{answer!r} is not what a graph says of an effect",
            remedy="Write Effect(graph.identify(treatment, outcome)), or name treatment, outcome "
            "and adjust.",
        )
    if isinstance(answer, PossibleSets):
        found = [
            replace(_of(own.answer), parents=own.parents, n_dags=own.n_dags)
            for own in answer.possibilities
        ]
        return msgspec.json.encode(found).decode()
    own = _of(answer)
    if own.why == NO_EFFECT:
        raise ParameterError(
            f"{answer}, so that nothing is to be estimated: the effect is 0",
            remedy="To test the graph, name treatment, outcome and adjust yourself.",
        )
    if own.why:
        raise ParameterError(own.why, remedy="Only adjustment is estimated.")
    return msgspec.json.encode(own.adjust).decode() if own.adjust else ""


def _of(answer: Identified | NotIdentified) -> PossibleSet:
    if isinstance(answer, NotIdentified):
        return PossibleSet(why=str(answer))
    if answer.method == "adjustment":
        return PossibleSet(answer.chosen)
    return PossibleSet(why=NO_EFFECT if answer.method == NO_EFFECT else str(answer))
