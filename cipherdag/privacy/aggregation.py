"""A declaration says what shares are summed for; an aggregate is the sum that comes back.

Leaks:
    A declaration is public; an aggregate is what the coordinator learns.
"""

from dataclasses import dataclass, field

from cipherdag.arrays import FloatVector


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of values of one kind inside an answer; all of it is public."""

    length: int
    bound: float  # largest value that a site may answer; beyond is refused, never clipped
    resolution_bits: int = 0  # the grid is ``2**-resolution_bits``; 0 for whole numbers
    comparison: bool = False  # the answer is 0 or 1 and only "does any site have 1?" is learnt
    signed: bool = False  # whether values reach down to ``-bound``; otherwise to 0


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declares the values, the sites and the digest that a round's shares are summed for.

    The digest is that of the whole question, 32 bytes. ``participants`` are the positions of the
    sites asked, ascending; all of the cohort when empty. ``threshold`` sites together can recover
    the self mask of one that left; with 0 none ever can.
    """

    digest: bytes
    cohort_size: int
    segments: tuple[Segment, ...]
    participants: tuple[int, ...] = ()
    threshold: int = 0

    @property
    def sites(self) -> tuple[int, ...]:
        """Positions of the sites asked, ascending."""
        return self.participants or tuple(range(self.cohort_size))

    @property
    def length(self) -> int:
        """Number of values in an answer."""
        return sum(segment.length for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Sums over the sites asked, shape (length,); 0.0 or 1.0 in comparison segments.

    ``content`` has the words that they were read from, tags included, as sites check them.
    """

    values: FloatVector = field(repr=False)
    content: bytes = field(repr=False)
