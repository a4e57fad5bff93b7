"""A party of a session's secure tests: which batches it takes part in, and which it refuses.

    party = Party(session, position, pair_keys, roles, names, identity)
    seat = party.begin(batch)          one attempt at one question
    seat.share(values), seat.prepare(request), ...

Leaks:
    See `Seat`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from cipherdag.arrays import BoolVector
from cipherdag.errors import CohortError, InconsistentQuestionError, ReplayError
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.keys.pairkeys import PairKey, sealing_keys
from cipherdag.privacy.mpc.batch import Batch, Roles
from cipherdag.privacy.mpc.messages import ReadVerdicts, read_verdicts
from cipherdag.privacy.mpc.seat import Seat
from cipherdag.privacy.mpc.words import RandomBytes
from cipherdag.privacy.secrecy import Secret, fresh_bytes

REPEATS: Final = 1
"""How often a holder that answered with its share of the masked sums answers a question again."""

_PURPOSE = b"secure tests"


class Party(Secret):
    """One site of a session, or the coordinator that deals for two sites.

    The session is a digest of 32 bytes, and positions are those of the cohort, or `COORDINATOR`.
    Names are those of the cohort's sites, for errors. A holder signs the bits with its identity;
    the coordinator needs none.
    """

    __slots__ = (
        "_answered", "_identity", "_keys", "_last", "_names", "_position", "_random", "_roles",
        "_seat", "_session",
    )  # fmt: skip

    def __init__(
        self,
        session: bytes,
        position: int,
        pair_keys: Mapping[int, PairKey],
        roles: Roles,
        names: Sequence[str],
        identity: SigningIdentity | None = None,
        random_bytes: RandomBytes = fresh_bytes,
    ) -> None:
        self._session, self._position, self._roles = session, position, roles
        if position not in (roles.dealer, *roles.sites):  # it sends only to those with one
            pair_keys = {other: pair_keys[other] for other in roles.sites if other in pair_keys}
        self._keys = dict(zip(pair_keys, sealing_keys(pair_keys.values(), _PURPOSE), strict=True))
        self._names, self._identity, self._random = names, identity, random_bytes
        self._last: Batch | None = None
        self._seat: Seat | None = None
        self._answered: list[Batch] = []  # attempts for which masked sums left

    def begin(self, batch: Batch) -> Seat:
        """This party's part in a batch; its part in the batch before ends.

        Raises:
            InconsistentQuestionError: It is of another session, or has other roles than the run.
            CohortError: This party takes no part in it, or shares no key with one that has a role.
            ReplayError: The batch does not come after the one before, or this holder signed the
                question's bits. Once its share of the masked sums left, a question is repeated
                once, and over the same sites and tests alone.
        """
        if batch.session != self._session or batch.roles != self._roles:
            raise InconsistentQuestionError("secure tests of another session, or with other roles")
        needed = {self._roles.dealer, *self._roles.sites} - {self._position}
        if self._position in (*self._roles.holders, self._roles.dealer, self._roles.twin):
            needed |= set(batch.sites) - {self._position}
        if not needed <= set(self._keys):
            raise CohortError("a site of the secure tests has no key with one that has a role")
        self._admit(batch)
        seat = Seat(batch, self._position, self._keys, self._names, self._identity, self._random)
        if self._seat is not None:
            self._seat.end()
        self._last, self._seat = batch, seat
        return seat

    def accept(
        self,
        content: bytes,
        batch: Batch,
        identities: Sequence[bytes],
        read: ReadVerdicts = read_verdicts,
    ) -> BoolVector:
        """The bits of a batch that this party took part in last; see `read_verdicts`.

        ``identities`` are the pinned public keys of the cohort's sites. ``read`` may be a cached
        `read_verdicts` that the parties of one process share. Raises ReplayError where it is not
        the batch of this party's last part.
        """
        if self._last is None or self._last.digest != batch.digest:
            raise ReplayError("these bits are not of the secure tests asked last")
        first, second = self._roles.holders
        return read(content, batch, (identities[first], identities[second]))

    def _admit(self, batch: Batch) -> None:
        """Raise ReplayError for a batch that would answer something a second time."""
        last, seat = self._last, self._seat
        if last is None or seat is None or batch.number > last.number:
            self._answered = []
            return
        if (batch.number, batch.attempt) <= (last.number, last.attempt):
            raise ReplayError("secure tests are asked once, and in order")
        if seat.signed:
            raise ReplayError("the bits of these secure tests were signed, and are found once")
        if seat.masked and last not in self._answered:
            self._answered.append(last)
        for before in self._answered:
            same = batch.sites == before.sites and batch.question == before.question
            if not same or batch.predicates.packed != before.predicates.packed:
                raise ReplayError("secure tests are repeated over the same sites alone")
        if len(self._answered) > REPEATS:
            raise ReplayError("secure tests are repeated once at most")
