"""Adjustment sets of one treatment and one outcome in a maximal PDAG.

Sources: Perkovic, Textor, Kalisch and Maathuis, "Complete graphical characterization and
construction of adjustment sets in Markov equivalence classes of ancestral graphs", JMLR 18 (2018)
(amenable, forbidden, blocked); Perkovic, Kalisch and Maathuis, "Interpreting and using CPDAGs with
background knowledge", UAI 2017 (the same with background knowledge);
van der Zander, Liskiewicz and Textor, Artificial Intelligence 270 (2019) (the back-door graph and
minimal sets); Henckel, Perkovic and Maathuis, "Graphical criteria for efficient total effect
estimation via adjustment in causal linear models", JRSS B 84 (2022) (the optimal set).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from cipherdag.graphs.dags import Dag, members
from cipherdag.graphs.equivalence import Pattern
from cipherdag.graphs.identification.maximal import (
    completed,
    possible_descendants,
    some_member,
    with_arrow,
)
from cipherdag.graphs.identification.separation import (
    closure,
    connected,
    moral,
    open_path,
    without_arrows_from,
)
from cipherdag.graphs.identification.separators import minimal_separators


@dataclass(frozen=True)
class Adjustment:
    """What the criterion needs to know of a treatment and an outcome.

    Attributes:
        pattern: A maximal PDAG.
        x: The treatment.
        y: The outcome.
    """

    pattern: Pattern
    x: int
    y: int

    @cached_property
    def undirected_start(self) -> int | None:
        """A neighbour of x by which x causes y in some DAGs and not in others; None: amenable."""
        for v in members(self.pattern.neighbours[self.x]):
            if possible_descendants(self._with_arrow(v), v) >> self.y & 1:
                return v
        return None

    @cached_property
    def causal(self) -> int:
        """Bit mask of what x causes in all DAGs and what in some of them causes y, and of y."""
        below = closure(self.pattern.children, 1 << self.x) & ~(1 << self.x)
        reach = [(v, possible_descendants(self.pattern, v)) for v in members(below)]
        return sum(1 << v for v, own in reach if own >> self.y & 1)

    @cached_property
    def forbidden(self) -> int:
        """Bit mask of x, y and what causal variables may cause: adjusting for it would bias."""
        found = 1 << self.x | 1 << self.y
        for v in members(self.causal):
            found |= possible_descendants(self.pattern, v)
        return found

    @cached_property
    def back_doors(self) -> Dag:
        """A DAG of the class without the arrows that begin a causal path from x to y.

        If x and y are amenable, a set without forbidden variables blocks in this one if in all.
        """
        dag = some_member(self.pattern)
        causes = closure(dag, 1 << self.y)
        return without_arrows_from(dag, 1 << self.x, causes)

    def valid(self, given: int) -> bool:
        """Whether adjusting for a set gives the effect in every DAG of the class."""
        if self.undirected_start is not None or given & self.forbidden:
            return False
        return not connected(self.back_doors, self.x, given) >> self.y & 1

    def minimal(self, observed: int, most: int) -> list[int]:
        """Valid sets of observed variables of which no part is valid, at most ``most`` of them."""
        beside = moral(self.back_doors, self.x, self.y)
        allowed = observed & ~self.forbidden
        return list(islice(minimal_separators(beside, self.x, self.y, allowed), most))

    def optimal(self, observed: int) -> int | None:
        """The valid set of least asymptotic variance; None where part of it is not observed."""
        found = 0
        for v in members(self.causal):
            found |= self.pattern.parents[v]
        found &= ~self.forbidden
        return None if found & ~observed or not self.valid(found) else found

    def best_try(self, observed: int) -> int:
        """The observed variables that block if any do: ancestors of x and y that may be chosen."""
        ancestral = closure(self.back_doors, 1 << self.x | 1 << self.y)
        return ancestral & observed & ~self.forbidden

    def still_open(self, given: int) -> tuple[int, ...]:
        """A path that is open given a set; empty where the set blocks all but causal ones."""
        return open_path(self.back_doors, self.x, self.y, given)

    def _with_arrow(self, v: int) -> Pattern:
        """The maximal PDAG in which x --> v."""
        return completed(with_arrow(self.pattern, self.x, v))
