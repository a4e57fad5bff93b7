"""The evidence for the edges of a learnt graph: numbers that the run opened, and nothing else."""

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import msgspec

Status = Literal["tested", "undone", "required", "untested", ""]
"""``tested``: dependent in all tests that could remove the edge. ``undone``: some of these were not
done, and one might have removed it. ``untested``: none was done. ``required``: by background
knowledge. "" where edges do not rest on tests."""
NO_EVIDENCE = ("undone", "untested")
"""Statuses with which p-values and shares of replicates say nothing: a test was not done."""
Name = TypeVar("Name", int, str)
FOLLOWS = "an end of the edge follows from what is given"
"""Why a test was not done where a column is computed from others: no rows can change that."""
SIGN = "association"  # the measure of effects that have nothing but a sign


@dataclass(frozen=True, slots=True)
class TestsOfEdge(Generic[Name]):
    """The tests that could take an edge away."""

    __test__ = False  # pytest takes every class named Test... for a test case

    asked: int  # how many there are
    undone: int  # how many of them could not be done
    # the conditioning set of one undone test; None for votes, each about many tests
    given: tuple[Name, ...] | None = ()
    why: str = ""  # the reason, in words

    @property
    def unit(self) -> Literal["test", "vote"]:
        """What is counted."""
        return "vote" if self.given is None else "test"

    @property
    def reason(self) -> str:
        """Which test could not be done, and why not, in words."""
        if self.given is None:
            return self.why
        return f"given {', '.join(map(str, self.given)) or 'nothing'}: {self.why}"

    @property
    def status(self) -> Status:
        """What the edge stands on."""
        if self.undone == 0:
            return "tested"
        return "undone" if self.undone < self.asked else "untested"


@dataclass(frozen=True, slots=True)
class EffectSize:
    """How strongly two variables go together, with a sign, in one test.

    Attributes:
        measure: What is measured, such as "partial correlation" or "odds ratio". Between variables
            of two categories, an odds ratio above 1 says that their second categories go together.
        value: A correlation, -1 to 1 and 0 for none; an odds ratio, above 0 and 1 for none; 1 or -1
            where there is nothing but a sign.
        low: Lower end of its interval at 95 %, of this test alone; None for a sign, and where a
            search chose the edge by these rows, so that no interval is valid.
        high: Upper end.
        of: For each variable with two categories, which one the sign is about, against which; ""
            for numbers, and where only the sites know the categories.
    """

    measure: str
    value: float
    low: float | None
    high: float | None
    of: str = ""

    @property
    def size(self) -> float | None:
        """The value; None where there is nothing but a sign."""
        return None if self.measure == SIGN else self.value

    @property
    def sign(self) -> str:
        """Whether the two go together or against each other, in a word."""
        none = 1.0 if "odds ratio" in self.measure else 0.0
        return "positive" if self.value > none else "negative"

    def __str__(self) -> str:
        of = f" of {self.of}" if self.of else ""
        if self.size is None:
            return f"{self.measure} {self.sign}{of}"
        if self.low is None:
            return f"{self.measure} {self.value:.3g}{of}"
        ends = f"(95 % interval {self.low:.3g} to {self.high:.3g})"
        return f"{self.measure} {self.value:.3g} {ends}{of}"


@dataclass(frozen=True, slots=True)
class EdgeEvidence:
    """The evidence of one edge."""

    source: str
    target: str
    strength: float  # at least 0, in terms of `GraphEvidence.measure`; pictures draw it as width
    shown: str  # the strength as people read it, such as "3/3"
    facts: tuple[str, ...] = ()  # what speaks for the edge and for its direction, in sentences
    # the largest p-value over all sites among the edge's tests, all of which found dependence; None
    # where there was no such test
    p_value: float | None = None
    given: tuple[str, ...] = ()  # the conditioning set of that test
    # the sign and size of the dependence in that test, where the sums opened have it
    effect: EffectSize | None = None
    # what background knowledge gives: the "edge", the "direction" of one, or nothing
    known: str = ""
    # the mark of the edge among replicates over rows drawn anew, "" for none; None where there are
    # no replicates
    consensus: str | None = None
    # what the edge stands on. Where tests were not done there is no p-value, no effect, and no
    # share of replicates.
    status: Status = ""
    # the tests that could take it away; None where edges do not stand on tests
    tests: TestsOfEdge[str] | None = None

    @property
    def stands_on_evidence(self) -> bool:
        """Whether no test that could remove the edge was left undone."""
        return self.status not in NO_EVIDENCE


# a run has tens of thousands, which the garbage collector need not look through
class Separation(msgspec.Struct, frozen=True, gc=False):
    """Two variables that an algorithm takes for independent given others.

    Attributes:
        given: The separating set; None where no site found one.
        support: The strength of that choice, as the algorithm compares it; None where the two
            count as independent though nothing was tested.
    """

    first: str
    second: str
    given: tuple[str, ...] | None
    support: float | None


@dataclass(frozen=True, slots=True)
class GraphEvidence:
    """The evidence of a learnt graph."""

    measure: str = ""  # what a strength is, as a phrase; empty if the algorithm has none
    edges: tuple[EdgeEvidence, ...] = ()  # the evidence of every edge
    support: str = ""  # what the support of a separation is, as a phrase
    separations: tuple[Separation, ...] = ()  # the separating sets that were chosen
    remarks: tuple[str, ...] = ()  # what else the opened numbers say, in sentences

    @property
    def unsupported(self) -> tuple[EdgeEvidence, ...]:
        """The edges that may be there only because a test was not done."""
        return tuple(edge for edge in self.edges if not edge.stands_on_evidence)

    def of(self, source: str, target: str) -> EdgeEvidence | None:
        """The evidence of the edge between two variables, in whatever direction."""
        for edge in self.edges:
            if {edge.source, edge.target} == {source, target}:
                return edge
        return None
