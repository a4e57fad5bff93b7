"""The key graph: every two sites share a key, or each with its next ones on a random ring.

Masks between every two sites cost n - 1 keys a site. Each site may share keys with ``degree``
others only: masks still cancel, and hide as much while the honest sites stay connected by keys
among themselves. If some of them are cut off from the other honest ones, their sum can be read
alone. Bell et al. (CCS 2020, section 3) draw such a graph at random once all keys are fixed, and
so it is here: the sites stand on a ring in an order that follows from the beacon, and each shares a
key with the ``degree / 2`` next ones on both sides (a Harary graph).

What Bell et al. show of sites that leave by chance is not enough where the coordinator says who
left. `KeyBounds` therefore lets the coordinator choose up to ``leaving`` sites in a run, and hear
all that ``colluders`` know: all other sites stay connected. Only who colludes must not depend on
the ring; the bounds are probabilities over the draw of the ring.

Leaks:
    Nothing: the ring is public, and follows from numbers that the sites commit to with their keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, comb, log2
from typing import Final, Self

from cipherdag.errors import ParameterError
from cipherdag.privacy.keys.pairkeys import KEY_BYTES, encode_position, expand

COMPLETE_UP_TO: Final = 100
"""Above this number of sites a plan under masking has a sparse graph, if one is safe enough."""
FAILURE_BITS: Final = 40
"""Exposure and loss each have a chance of 2**-40 at most, over the draw of the ring."""
MOST_NEIGHBOURS: Final = 150
"""Keys of a site at most, up to a thousand sites; beyond, 15 for every hundred."""
MOST_COMPLETE: Final = 300
"""Up to this number of sites every two share a key if no sparse graph is safe enough."""
TENTH: Final = 10
"""A sparse graph allows for one colluding site in ten at least, whatever the plan says."""
TWENTIETH: Final = 20  # a sparse graph allows for one leaving site in twenty at least
_SURE: Final = 2.0**-FAILURE_BITS


@dataclass(frozen=True, slots=True)
class KeyGraph:
    """The graph of the pairs of sites that share a key.

    Each shares one with ``degree`` others, an even number, or all, around a ring of positions.
    """

    ring: tuple[int, ...]
    degree: int

    @classmethod
    def complete(cls, n_sites: int) -> Self:
        """A key for every two sites."""
        return cls(tuple(range(n_sites)), n_sites - 1)

    @classmethod
    def drawn(cls, beacon: bytes, n_sites: int, degree: int) -> Self:
        """The graph that follows from a beacon of 32 bytes that no party could choose."""
        return cls(in_turn(beacon, 0, range(n_sites), n_sites), degree)

    @property
    def whole(self) -> bool:
        """Whether every two sites share a key."""
        return self.degree >= len(self.ring) - 1

    def neighbours(self, site: int) -> tuple[int, ...]:
        """Positions of the sites that share a key with one, ascending."""
        ring, n_sites = self.ring, len(self.ring)
        if self.whole:
            return tuple([other for other in range(n_sites) if other != site])
        at = ring.index(site)
        steps = range(1, self.degree // 2 + 1)
        either = [ring[(at + sign * step) % n_sites] for step in steps for sign in (1, -1)]
        return tuple(sorted(either))

    def peers(self, site: int, asked: Collection[int]) -> list[int]:
        """The sites among ``asked`` that share a key with ``site``, ascending."""
        among = asked if isinstance(asked, frozenset) else frozenset(asked)
        return [other for other in self.neighbours(site) if other in among]


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """The degree of a sparse key graph, and bounds on the chances that it exposes or fails."""

    n_sites: int
    colluders: int  # sites that may tell the coordinator everything
    leaving: int  # sites that may leave in a run, the coordinator's choice: a sum covers the others
    degree: int  # number of neighbours: sites that each shares a key with
    threshold: int  # how many neighbours recover the self mask of a site that left

    @classmethod
    def fewest(cls, n_sites: int, colluders: int, leaving: int) -> KeyBounds | None:
        """The fewest keys that keep both chances below 2**-`FAILURE_BITS`.

        Whatever a plan declares, at least a tenth of the sites are assumed to collude and a
        twentieth to leave: who writes the plan does not choose how thin the graph is. If more than
        `most_neighbours` keys a site are needed, up to `MOST_COMPLETE` sites the result is None:
        every two share a key. ParameterError for more sites, or where all collude or leave.
        """
        if not 0 <= colluders < n_sites > leaving >= 0:
            raise ParameterError("as many sites collude, or leave, as there are")
        tenth, twentieth = n_sites // TENTH, n_sites // TWENTIETH
        return _fewest(n_sites, max(colluders, tenth), max(leaving, twentieth))

    def fewest_pieces(self) -> int:
        """The lowest threshold at which the exposure is small enough."""
        return bisect_left(
            range(self.degree),
            -_SURE,
            key=lambda threshold: -replace(self, threshold=threshold).exposure,
        )

    @property
    def exposure(self) -> float:
        """Chance that whoever colludes can read more than the sum over all others.

        Two cuts through the ring disconnect it, each of ``degree / 2`` sites in a row that all
        collude or left. If no row has more than w colluders, ``degree - 2 w`` sites would have to
        leave for both. Besides, ``threshold`` neighbours together recover a site's self mask: as
        such count colluders, and sites that left one of two sums over nearly the same sites.
        """
        half, spare = self.degree // 2, self.degree - self.leaving - 1
        if spare < 0:
            return 1.0
        cut = self.n_sites * more_than(spare // 2, self.n_sites, self.colluders, half)
        few = self.threshold - self.leaving - 1
        if few < 0:
            return 1.0
        honest = self.n_sites - self.colluders
        recovered = honest * more_than(few, self.n_sites - 1, self.colluders, self.degree)
        return min(cut + recovered, 1.0)

    @property
    def loss(self) -> float:
        """Chance that too many neighbours of some site leave, so that the run ends.

        ``leaving`` sites leave after their shares came, together or not, whatever the ring.
        """
        if self.threshold > self.degree:
            return 1.0
        spare = self.degree - self.threshold
        others = max(self.leaving - 1, 0)
        return min(self.n_sites * more_than(spare, self.n_sites - 1, others, self.degree), 1.0)

    @property
    def sound(self) -> bool:
        """Whether both chances are small enough, and there is such a graph."""
        possible = self.degree % 2 == 0 and 1 <= self.threshold <= self.degree < self.n_sites - 1
        counts = min(self.colluders, self.leaving) >= 0 and self.colluders < self.n_sites
        return possible and counts and max(self.exposure, self.loss) <= _SURE

    def sentence(self) -> str:
        """The sentence about the graph that a person reads before and after a run."""
        collude = "no site colludes" if not self.colluders else f"{self.colluders} collude"
        return (
            f"Each site shares keys with {self.degree} of the {self.n_sites - 1} others, drawn by "
            f"lot once all keys were fixed, and {self.threshold} of them recover its mask if it "
            f"leaves. Where {collude} that could not foresee the lot, and the coordinator says "
            f"which {self.leaving} left, it reads anything but sums over all others with a chance "
            f"of {_power(self.exposure)} at most; where {self.leaving} leave by chance, "
            f"the run ends without a result with a chance of {_power(self.loss)} at most."
        )


@lru_cache(maxsize=64)
def _fewest(n_sites: int, colluders: int, leaving: int) -> KeyBounds | None:
    """`KeyBounds.fewest` for exactly these numbers of colluding and leaving sites."""
    most = min(most_neighbours(n_sites), n_sites - 2)
    # with fewer neighbours, leaving sites alone can cut the ring
    for degree in range(max(4, leaving + 1 + (leaving + 1) % 2), most + 1, 2):
        bounds = KeyBounds(n_sites, colluders, leaving, degree, threshold=degree)
        if bounds.exposure <= _SURE:
            fewest = replace(bounds, threshold=bounds.fewest_pieces())
            if fewest.sound:
                return fewest
    if n_sites <= MOST_COMPLETE:
        return None
    raise ParameterError(
        f"no graph of {most} keys a site or fewer keeps {n_sites} sites connected, of which "
        f"{colluders} collude and {leaving} leave",
        remedy="Declare fewer colluding sites, or divide the sites among several runs.",
    )


def most_neighbours(n_sites: int) -> int:
    """Keys of a site at most."""
    return max(MOST_NEIGHBOURS, n_sites * MOST_NEIGHBOURS // 1000)


def more_than(few: int, n_sites: int, marked: int, drawn: int) -> float:
    """Chance that more than ``few`` of ``drawn`` sites, drawn without return, are marked ones.

    The tail of the hypergeometric distribution, in whole numbers until the last division, so that
    every machine finds the same: each term follows from the one before by a small factor.
    """
    rest, most = n_sites - marked, min(marked, drawn)
    least = max(few + 1, drawn - rest, 0)
    ways = total = comb(marked, least) * comb(rest, drawn - least) if least <= most else 0
    for k in range(least, most):
        ways = ways * ((marked - k) * (drawn - k)) // ((k + 1) * (rest - drawn + k + 1))
        total += ways
    return total / comb(n_sites, drawn)


def in_turn(beacon: bytes, step: int, present: Sequence[int], roles: int) -> tuple[int, ...]:
    """Positions of the sites that take the roles of a step, the first role's first.

    Each site has a number that follows from the beacon, the step and its position; those with the
    smallest have the roles. Where one of them leaves, those after it move up, and where another
    site leaves nothing changes: by leaving out sites, nobody gets more than the next ones in turn.

    No party could choose the beacon, of 32 bytes, which is the same for everyone. The step says
    which question of the plan it is; ``present`` are the positions of the sites still there. Raises
    ParameterError where there are fewer sites than roles, or no such beacon or step.
    """
    if len(beacon) != KEY_BYTES or not 0 <= step < 1 << 32:
        raise ParameterError("roles follow from a beacon of 32 bytes and a step of 32 bits")
    if len(set(present)) != len(present) or len(present) < roles:
        raise ParameterError("every role needs a site of its own")
    number = step.to_bytes(4, "big")
    ordered = sorted(
        present, key=lambda site: expand(beacon, b"role", number, encode_position(site))
    )
    return tuple(ordered[:roles])


def _power(chance: float) -> str:
    return f"2^{ceil(log2(chance))}" if chance > 0 else "0"
