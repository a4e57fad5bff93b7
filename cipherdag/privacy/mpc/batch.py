"""One batch of tests: who has which role in it, and everything public that it is bound to.

Roles are drawn once a run, so that sites that collude have one chance to be given two of them:

    sites   dealer        twin       holders       (the pages' dealer, verifier, computing parties)
    2       coordinator   none       both sites
    3       one           none       the two others
    4 on    one           another    two others

Leaks:
    All of it is public.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import IntegerVector
from cipherdag.errors import CohortError, ParameterError
from cipherdag.predicates import LEAST_WIDTH, Predicates
from cipherdag.privacy.key_graph import in_turn
from cipherdag.privacy.mpc.payloads import BlockHash, key_words
from cipherdag.privacy.mpc.words import LABEL_HASH_BYTES, WORD_BYTES, WordPacking, predicates_digest
from cipherdag.privacy.wire import transcript

COORDINATOR: Final = (1 << 32) - 1
"""Stands for the coordinator, which has no position in the cohort."""
SESSION_DIGEST_BYTES: Final = 32
TWO_SITES: Final = 2
FEWEST_WITH_TWIN: Final = 4
MOST_NUMBER: Final = (1 << 32) - 1
_NO_TWIN = COORDINATOR
_LAYOUT = struct.Struct(">BIIIIII")
_VERSION = 2
_HASH_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Roles:
    """Positions of the parties that find the bits of a run; CohortError where two roles are one's.

    The ``dealer`` deals the keys; it is `COORDINATOR` where there are two sites. The ``twin``
    repeats the deal from the dealer's seed, to verify it; None below four sites. The two
    ``holders`` hold shares and keys, and compute the bits.
    """

    dealer: int
    twin: int | None
    holders: tuple[int, int]

    def __post_init__(self) -> None:
        if len(set(self.sites)) != len(self.sites) or COORDINATOR in (self.twin, *self.holders):
            raise CohortError("every role of a secure test needs another party")

    @classmethod
    def draw(cls, beacon: bytes, sites: Sequence[int]) -> Roles:
        """A run's roles by a beacon of 32 bytes; CohortError for fewer than two sites."""
        if len(sites) < TWO_SITES:
            raise CohortError("secure tests need two sites at least")
        order = in_turn(beacon, 0, sites, min(len(sites), FEWEST_WITH_TWIN))
        if len(order) == TWO_SITES:
            return cls(COORDINATOR, None, (order[0], order[1]))
        dealer, *twin, first, second = order
        return cls(dealer, twin[0] if twin else None, (first, second))

    def of(self, position: int) -> str:
        """The role of a party: dealer, twin, holder, site, or coordinator that deals."""
        dealer = "coordinator" if self.dealer == COORDINATOR else "dealer"
        named: dict[int | None, str] = {self.twin: "twin", self.dealer: dealer}
        return (named | dict.fromkeys(self.holders, "holder")).get(position, "site")

    @property
    def sites(self) -> tuple[int, ...]:
        """Positions of all sites with a role."""
        dealer = () if self.dealer == COORDINATOR else (self.dealer,)
        twin = () if self.twin is None else (self.twin,)
        return (*dealer, *twin, *self.holders)


def batch_digest(
    session: bytes,
    question: bytes,
    number: int,
    attempt: int,
    sites: Sequence[int],
    roles: Roles,
    compared: bytes,
) -> bytes:
    """The digest of a batch, 32 bytes; ``compared`` is that of its tests.

    ParameterError where a number or position does not fit 32 bits.
    """
    twin = _NO_TWIN if roles.twin is None else roles.twin
    try:
        said = _LAYOUT.pack(_VERSION, number, attempt, roles.dealer, twin, *roles.holders)
        positions = b"".join(site.to_bytes(4, "big") for site in sites)
    except (struct.error, OverflowError):
        raise ParameterError("numbers of questions, attempts and sites fit 32 bits") from None
    parts = said, session, question, positions, compared
    return hashlib.sha256(transcript(b"cipherdag secure tests", *parts)).digest()


@dataclass(frozen=True)
class Batch:
    """One attempt at a batch of tests, as every party derives it for itself.

    ``session`` and ``question`` are digests, 32 bytes each, and ``number`` says which question of
    the session it is. ``attempt`` is 0 for the first; a repeat has new seeds and a new digest.
    ``sites`` are the ascending positions of those that take part; roles are the same in every batch
    of a run.

    CohortError where a site with a role does not take part, or the coordinator would deal for other
    than two sites: roles are never drawn anew, which would change who is trusted. ParameterError
    where another attribute is out of its range.
    """

    session: bytes
    question: bytes
    number: int
    attempt: int
    sites: tuple[int, ...]
    roles: Roles
    predicates: Predicates

    def __post_init__(self) -> None:
        if {len(self.session), len(self.question)} != {SESSION_DIGEST_BYTES}:
            raise ParameterError("digests of a session and a question have 32 bytes")
        if not all(0 <= n <= MOST_NUMBER for n in (self.number, self.attempt)):
            raise ParameterError("numbers of questions and attempts fit 32 bits")
        ascending = list(self.sites) == sorted(set(self.sites))
        if not ascending or not all(site in _POSITIONS for site in self.sites):
            raise ParameterError("positions of sites ascend and fit 32 bits")
        if not set(self.roles.sites) <= set(self.sites):
            raise CohortError("a site with a role in the secure tests left: the run ends")
        if (self.roles.dealer == COORDINATOR) != (len(self.sites) == TWO_SITES):
            raise CohortError("the coordinator deals for two sites, and a site for more")

    def role_of(self, position: int) -> str:
        """The role of a party in this batch, such as dealer; raises CohortError if it has none."""
        if position not in self.sites and position != self.roles.dealer:
            raise CohortError("this party takes no part in the secure tests")
        return self.roles.of(position)

    @cached_property
    def compared(self) -> bytes:
        """The digest of the tests, 32 bytes."""
        return predicates_digest(self.predicates)

    @cached_property
    def digest(self) -> bytes:
        """The digest that every key, seal and signature of the batch is bound to, 32 bytes."""
        about = self.session, self.question, self.number, self.attempt, self.sites, self.roles
        return batch_digest(*about, self.compared)

    @cached_property
    def widths(self) -> IntegerVector:
        """Bits of the ring of every comparison."""
        return self.predicates.widths()

    @cached_property
    def word_widths(self) -> IntegerVector:
        """Bits of the ring that each word is shared in: the widest of the forms that it is in."""
        widths = np.full(self.predicates.n_words, LEAST_WIDTH, dtype=np.int64)
        for terms in (self.predicates.quadratic, self.predicates.linear):
            for words in terms[:, 1:-1].T:
                np.maximum.at(widths, words, self.widths[terms[:, 0]])
        return widths

    @cached_property
    def multiplied(self) -> NDArray[np.intp]:
        """Positions of the words that some form multiplies, ascending."""
        used = np.zeros(self.predicates.n_words, dtype=bool)
        used[self.predicates.quadratic[:, 1:3]] = True
        return np.flatnonzero(used)

    @cached_property
    def test_of(self) -> NDArray[np.intp]:
        """The test of every comparison."""
        return np.repeat(np.arange(self.predicates.n_tests), self.predicates.sizes)

    @cached_property
    def vector(self) -> WordPacking:
        """How a vector of words travels."""
        return WordPacking(self.word_widths)

    @cached_property
    def factors(self) -> WordPacking:
        """How the multiplied words travel."""
        return WordPacking(self.word_widths[self.multiplied])

    @cached_property
    def forms(self) -> WordPacking:
        """How a word of every comparison travels."""
        return WordPacking(self.widths)

    @cached_property
    def key_bytes(self) -> int:
        """Length of what both keys of the comparisons have in common."""
        return key_words(self.widths - 1) * WORD_BYTES

    @cached_property
    def dealt_bytes(self) -> int:
        """Length of what a dealer sends in the clear."""
        hashes = self.predicates.n_comparisons + self.predicates.n_tests + 1
        return self.key_bytes + self.factors.n_bytes + hashes * LABEL_HASH_BYTES

    @cached_property
    def tree_hash(self) -> BlockHash:
        """The public hash of this batch's comparison keys."""
        return self._hash(b"keys")

    @cached_property
    def label_hash(self) -> BlockHash:
        """The public hash of this batch's labels."""
        return self._hash(b"labels")

    def _hash(self, purpose: bytes) -> BlockHash:
        key = hashlib.sha256(transcript(b"cipherdag public hash", purpose, self.digest)).digest()
        return BlockHash(key[:_HASH_KEY_BYTES])


_POSITIONS = range(COORDINATOR)
