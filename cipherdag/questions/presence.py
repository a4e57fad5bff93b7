"""State of a run beside its sums: participating sites, and the variables that they measured."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import BoolMatrix, BoolVector, IndexArray


@dataclass(slots=True)
class Presence:
    """State of a run that an algorithm reads beside every sum; `Replay` reproduces it.

    Attributes:
        n_sites: How many sites the last sum covers; before the first, how many there are.
        skeleton: The skeleton so far, shape (p, p), where the algorithm shows one to those who
            watch it; nothing is decided by it.
        tests: Of a search through sets of one size how many tests were asked, this round included,
            and how many there are at most; None between such searches. It is shown as well.
    """

    n_sites: int
    skeleton: BoolMatrix | None = None
    tests: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """Coverage of the variables by the sites of a cohort, as their plan declares it.

    Sites that lack the same variables form a group. What is opened is a sum over all sites that
    measured something, hence over whole groups, and so is every difference of such
    sums: where every group is large enough, no such sum is of few sites (docs/adr/0027).

    Attributes:
        lacking: Of each site the positions that it lacks, ascending; empty if no site lacks any.
    """

    lacking: tuple[tuple[int, ...], ...] = ()

    @property
    def everywhere(self) -> bool:
        """Whether every site measured every variable."""
        return not any(self.lacking)

    def groups(self, sites: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """Group some sites, by position in the cohort, by the variables that they lack."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for site in sites:
            groups.setdefault(self.lacking[site], []).append(site)
        return tuple(map(tuple, groups.values()))

    def smallest_group(self, sites: Iterable[int]) -> int:
        """The size of the smallest group among some sites; 0 for no site."""
        return min(Counter(self.lacking[site] for site in sites).values(), default=0)

    def sets(self, n_variables: int) -> tuple[tuple[int, ...], ...]:
        """The maximal sets of variables that some site measured together."""
        every = frozenset(range(n_variables))
        seen = {every.difference(lacking) for lacking in self.lacking or ((),)}
        largest = (one for one in seen if not any(one < other for other in seen))
        return tuple(sorted(tuple(sorted(one)) for one in largest))

    def together(self, rows: IndexArray) -> BoolVector:
        """Whether some site measured all variables of a row, shape (B,); rows of shape (B, k)."""
        measured = np.full(len(rows), self.everywhere)
        for lacking in set(self.lacking):
            measured |= ~np.isin(rows, lacking).any(axis=1)
        return measured

    def has(self, variables: Sequence[int]) -> bool:
        """Whether some site measured all of some variables."""
        return self.everywhere or any({*variables}.isdisjoint(lacking) for lacking in self.lacking)

    def never(self, pairs: BoolMatrix) -> BoolMatrix:
        """Select the pairs that no site measured together, shape (p, p) as given."""
        x, y = np.nonzero(pairs)
        unmeasured = np.zeros_like(pairs)
        unmeasured[x, y] = ~self.together(np.column_stack([x, y]))
        return unmeasured


EVERYWHERE = Measured()  # every site measured every variable
