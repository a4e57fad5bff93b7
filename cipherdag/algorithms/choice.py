"""Chooses the algorithm that learns a graph from some columns and sites: ``cipherdag run FILES``.

The rules were chosen by the errors of graphs on data whose graph is known; see ``benchmarks.md``.
The number of columns per row plays no part: the result warns where there are too many columns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

FEWEST_FOR_SUMS = 3  # least number of sites of which a sum hides each site's part from the others
MOST_INCOMPLETE = 0.05
"""Up to this share of rows that miss a value at a site, an algorithm may leave such rows out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the choice depends on."""

    kind: Literal["discrete", "continuous", "mixed"]
    n_sites: int
    incomplete: float = 0.0  # largest share of a site's rows that miss a value
    overlapping: bool = False  # whether sites measured different columns
    visits: bool = False  # whether some site's rows are visits of patients


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the choice."""

    algorithm: str
    reason: str  # why it is taken: the circumstance and what follows, one sentence
    applies: Callable[[Circumstances], bool]


RULES = (
    Rule("fedpc", "Rows are visits, and FedPC counts patients.", lambda facts: facts.visits),
    Rule(
        "fedpc",
        "The sites measured different columns, and FedPC does every test that some site can do.",
        lambda facts: facts.overlapping,
    ),
    Rule(
        "fedpc",
        "There are fewer than three sites, so only bits can be disclosed, as FedPC's tests do.",
        lambda facts: facts.n_sites < FEWEST_FOR_SUMS,
    ),
    Rule(
        "fedpc",
        "More than one row in twenty misses a value, and FedPC uses every row that has the values "
        "of a test.",
        lambda facts: facts.incomplete > MOST_INCOMPLETE,
    ),
    Rule(
        "fedboss",
        "All columns are numbers: where relations are straight lines FedBOSS makes far fewer "
        "errors than tests; it discloses covariances summed over the sites.",
        lambda facts: facts.kind == "continuous",
    ),
    Rule(
        "fedboss",
        "There are categories: FedBOSS corrects FedPC's graph by comparing scores, which "
        "discloses bits.",
        lambda facts: facts.kind != "continuous",
    ),
)
"""In this order; the first that applies decides."""


def choose(facts: Circumstances) -> Rule:
    """The first rule that applies."""
    return next(rule for rule in RULES if rule.applies(facts))
