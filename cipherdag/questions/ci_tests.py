"""The conditional-independence tests that a question may name, and how it names one.

The register is closed, and a test stands in it once; a class in `cipherdag.sites.compute.ci_tests`
computes it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")

ColumnTypes = Literal["discrete", "continuous", "mixed"]
"""What a site's columns are, all taken together."""
DegreesOfFreedom = Literal["adjusted", "plain"]
Constant = Literal["independent", "untestable"]

FEWEST_KERNEL_ROWS = 10
MOST_KERNEL_ROWS = 20_000  # a kernel matrix of more rows takes more than 3 GB


@dataclass(frozen=True, slots=True)
class CITestKind:
    """A conditional-independence test, or a name that stands for the test that fits the columns."""

    name: str  # what questions, parameters and commands call it
    # the name of the test that is computed, by the types of columns that it takes
    computed: Mapping[ColumnTypes, str]
    # whether each of its discrete columns may have two categories only, which become 0 and 1
    two_categories: bool = False
    scored: bool = False  # whether columns of categories that are numbers count as numbers
    offered: tuple[str, ...] = ()  # algorithms whose parameter ``test`` offers it


_ALGORITHMS = ("fedpc", "fedcmfs")
_COLUMN_TYPES = get_args(ColumnTypes)
_KINDS = (
    CITestKind("auto", {"discrete": "g2", "continuous": "fisherz"}, offered=_ALGORITHMS),
    CITestKind("g2", {"discrete": "g2"}, offered=_ALGORITHMS),
    CITestKind("pearson", {"discrete": "pearson"}, offered=_ALGORITHMS),
    CITestKind("pearson-or-fisherz", {"discrete": "pearson", "continuous": "fisherz"}),
    CITestKind(
        "pearson-by-type",
        {"discrete": "pearson", "continuous": "fisherz", "mixed": "fisherz"},
        scored=True,
    ),
    CITestKind("fisherz", {"continuous": "fisherz"}, two_categories=True, offered=_ALGORITHMS),
    # between the numbers of a table, whatever its other columns are
    CITestKind("numbers", {"continuous": "fisherz", "mixed": "fisherz"}),
    CITestKind(
        "by-type", {"discrete": "g2", "continuous": "fisherz", "mixed": "fisherz"}, scored=True
    ),
    CITestKind("regression", dict.fromkeys(_COLUMN_TYPES, "regression"), offered=_ALGORITHMS),
    CITestKind(
        "kci", {"continuous": "kci", "mixed": "kci"}, two_categories=True, offered=("fedpc",)
    ),
)
CI_TESTS = {kind.name: kind for kind in _KINDS}


class CITestSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A conditional-independence test that the sites use, with its parameters."""

    alpha: float  # independent iff p > alpha
    name: str = "auto"  # one of `CI_TESTS`
    # degrees of freedom of the table tests, ``adjusted`` for empty margins or ``plain``
    dof: DegreesOfFreedom = "adjusted"
    # a table test with fewer is unreliable and counts as dependent; for a regression these are the
    # rows per coefficient
    min_rows_per_cell: float = 5.0
    # how a table test takes a variable of one value at a site: as ``independent`` of all others (p
    # = 1), or as ``untestable``, which it always is for the other tests
    constant: Constant = "independent"
    kernel_rows: int = 1000  # most rows of a site that a kernel test looks at, evenly spaced

    def __post_init__(self) -> None:
        if self.name not in CI_TESTS:
            raise ValueError(f"there is no test named {self.name!r}")
        if not 0.0 < self.alpha < 1.0:
            raise ValueError("alpha must lie strictly between 0 and 1")
        if not 0.0 <= self.min_rows_per_cell < math.inf:
            raise ValueError("min_rows_per_cell must be a finite number >= 0")
        if not FEWEST_KERNEL_ROWS <= self.kernel_rows <= MOST_KERNEL_ROWS:
            raise ValueError(f"kernel_rows must lie in {FEWEST_KERNEL_ROWS}..{MOST_KERNEL_ROWS}")


def offered_tests(algorithm: str) -> tuple[str, ...]:
    """The names that the parameter ``test`` of an algorithm, such as ``fedpc``, may have."""
    return tuple(kind.name for kind in CI_TESTS.values() if algorithm in kind.offered)


def fitting_tests(columns: ColumnTypes, refused: CITestKind, *, two_categories: bool = True) -> str:
    """Say which options to run with, by algorithm, where a test does not take the columns.

    Only algorithms that offer the refused test are named. ``two_categories``: whether every
    discrete column has two at most.
    """
    parts = []
    for algorithm in ("fedcmfs",) if refused.scored else refused.offered or _ALGORITHMS:
        names = [
            name
            for name in offered_tests(algorithm)
            if columns in CI_TESTS[name].computed
            and (two_categories or not CI_TESTS[name].two_categories)
        ]
        if names:
            parts.append(f"--test {' or '.join(names)} ({algorithm})")
    # stratified tests run over all sites together, not at each site, and take any columns
    ways = [f"Run with {', '.join([*parts, '--evidence stratified'])}"]
    if columns != "discrete":
        ways.append("cut continuous columns into declared bins")
    return ", or ".join(ways) + "."


def tests_of(counts: Sequence[int]) -> str:
    """The number of tests, given how many condition on 0, 1, 2, ... other variables, in words."""
    sizes = [size for size, count in enumerate(counts) if count]
    noun = "test" if sum(counts) == 1 else "tests"
    tests = f"{sum(counts):,} {noun} of pairs"
    if not sizes or sizes == [0]:
        return tests
    return f"{tests} given {'' if len(sizes) == 1 else 'up to '}{others(sizes[-1])}"


def others(count: int) -> str:
    """So many other variables: "one other", "two others"."""
    number = _NUMBERS[count] if count < len(_NUMBERS) else str(count)
    return f"{number} other{'s' * (count != 1)}"
