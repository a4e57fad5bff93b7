"""What a graph says about an effect: identified, one of several possible, or not identified."""

from dataclasses import dataclass
from typing import Literal

from cipherdag.pages.numerals import counted

Names = tuple[str, ...]
MOST_SETS = 5
Method = Literal["no effect", "adjustment", "front door", "instrument"]


@dataclass(frozen=True, slots=True)
class Instrument:
    """A variable that moves the treatment, and the outcome through it alone, given others."""

    variable: str
    given: Names

    def __str__(self) -> str:
        return f"{self.variable} given {set_in_words(self.given)}" if self.given else self.variable


@dataclass(frozen=True, slots=True, kw_only=True)
class Identified:
    """The effect is a function of the observed distribution, the same in every DAG of the graph.

    Attributes:
        method: ``no effect``: the treatment is a cause of the outcome in no DAG. ``adjustment``:
            for any of ``sets``. ``front door``: through the mediators of ``sets``. ``instrument``:
            by any of ``instruments``, if all effects are linear.
        sets: Adjustment: minimal sets, the smallest first, at most 100. Front door: one set that
            is minimal. Else none. Names in a set are sorted.
        optimal: Of all adjustment sets the one by which estimates vary least in large samples, not
            always minimal; None where some of it is unobserved.
        instruments: Instruments, those given the fewest variables first.
    """

    treatment: str
    outcome: str
    method: Method
    sets: tuple[Names, ...] = ()
    optimal: Names | None = None
    instruments: tuple[Instrument, ...] = ()

    @property
    def chosen(self) -> Names:
        """The set to estimate with: the optimal one, or else the first; empty without a set."""
        return self.optimal if self.optimal is not None else next(iter(self.sets), ())

    def __str__(self) -> str:
        effect = f"the effect of {self.treatment} on {self.outcome}"
        if self.method == "no effect":
            none = f"{self.treatment} has no effect on {self.outcome}"
            return f"{none} in this graph: no path leads there"
        if self.method == "front door":
            return f"{effect} is identified by the front door through {set_in_words(self.chosen)}"
        if self.method == "instrument":
            by = " or ".join(map(str, self.instruments))
            return f"{effect} is identified, if all effects are linear, by the instrument {by}"
        others = [set_in_words(each) for each in self.sets if each != self.chosen]
        said = f"{effect} is identified: adjust for {set_in_words(self.chosen)}"
        if not others:
            return said
        or_for = "; or for ".join(others[:MOST_SETS])
        return f"{said}, which gives the narrowest interval as a rule; or for {or_for}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotIdentified:
    """No method of this package identifies the effect; see ``why``.

    Attributes:
        why: In words, with the path that stays open.
        open_path: The variables on that path, from the treatment to the outcome.
        given: What that path is open given: adjusting for these would block all, if anything did.
    """

    treatment: str
    outcome: str
    why: str
    open_path: Names
    given: Names

    def __str__(self) -> str:
        return f"the effect of {self.treatment} on {self.outcome} is not identified: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Possibility:
    """What holds in those DAGs of a class in which the treatment has certain direct causes.

    Attributes:
        parents: The direct causes of the treatment, sorted: a set of IDA.
        answer: What these DAGs say about the effect.
        n_dags: How many DAGs of the class these are; None where undirected edges join more than 32
            variables to each other, or have more than 1000 ways to be directed.
    """

    parents: Names
    answer: Identified | NotIdentified
    n_dags: int | None

    def __str__(self) -> str:
        count = "" if self.n_dags is None else f" ({counted(self.n_dags, 'DAG')})"
        causes, verb = ("cause", "is") if len(self.parents) == 1 else ("causes", "are")
        treatment = self.answer.treatment
        condition = f"if the direct {causes} of {treatment} {verb} {set_in_words(self.parents)}"
        if not self.parents:
            condition = f"if {treatment} has no direct cause"
        return f"{condition}{count}: {self.answer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleSets:
    """The graph leaves open which DAG is true, and the effect differs between them.

    Attributes:
        possibilities: One for every set of direct causes that the treatment may have, the smallest
            first; together they are all DAGs of the class.
        undecided: A neighbour of the treatment whose direction would have to be known.
    """

    treatment: str
    outcome: str
    possibilities: tuple[Possibility, ...]
    undecided: str

    def __str__(self) -> str:
        head = (
            f"the effect of {self.treatment} on {self.outcome} is one of "
            f"{len(self.possibilities)}: {self.treatment} --- {self.undecided} is not directed"
        )
        return "\n".join([head, *(f"  {each}" for each in self.possibilities)])


Answer = Identified | PossibleSets | NotIdentified


def set_in_words(names: Names) -> str:
    """A set of names in words."""
    return ", ".join(names) if names else "nothing"
