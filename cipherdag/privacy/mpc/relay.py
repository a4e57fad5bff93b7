"""The coordinator's side of a batch: it hands on what others sealed, and reads none of it.

    prepare   every site's parts            -> what each role is asked first
    square    answers of the roles          -> what the holders are asked next
    compare   shares of the masked forms
    open      shares of the labels
    combine   both holders' signed bits     -> what every site reads

It checks shapes and lengths alone, so that whoever sent something else is named at once.

Leaks:
    To the coordinator: lengths, hashes and keys that say nothing without a holder's seed; the bits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cipherdag.errors import CipherdagError, ForgedSumError, ShareError
from cipherdag.privacy.fixedpoint import DIGEST_BYTES
from cipherdag.privacy.keys.pairkeys import SEAL_BYTES
from cipherdag.privacy.mpc.batch import COORDINATOR, Batch
from cipherdag.privacy.mpc.holding import label_bytes
from cipherdag.privacy.mpc.messages import (
    SEALED_SEED,
    Checks,
    Collected,
    Contributed,
    Keys,
    Passed,
    Signed,
    Square,
    Verdicts,
    check_signed,
    most_bytes,
)
from cipherdag.privacy.wire import Body, BodyType, decode, encode


@dataclass(frozen=True, slots=True)
class Relay:
    """Hands on the messages of one batch; names of sites, by position, are for errors."""

    batch: Batch
    names: Sequence[str]

    def check(self, site: int, share: bytes) -> None:
        """Raise ShareError unless a site's `Contributed` has the lengths that this batch needs."""
        self._check_lengths(site, self._read(site, share, Contributed))

    def prepare(self, shares: Mapping[int, bytes]) -> dict[int, bytes]:
        """`Collected` for every role, by position, from `Contributed` of every site.

        A coordinator that deals is asked under `COORDINATOR`.

        Raises:
            ShareError: A site's `Contributed` is missing, or is not one of this batch.

        Leaks:
            Commitments to seeds that were drawn at random, to dealer and twin.
        """
        self._require(shares, self.batch.sites)
        said = {site: self._read(site, shares[site], Contributed) for site in self.batch.sites}
        for site, parts in said.items():
            self._check_lengths(site, parts)
        roles = self.batch.roles
        commitments = {site: parts.commitment for site, parts in said.items()}
        first, second = roles.holders
        asked: dict[int, Body] = {
            first: Collected(self._others(first, {s: parts.first for s, parts in said.items()})),
            second: Collected(self._others(second, {s: parts.rest for s, parts in said.items()})),
            roles.dealer: Collected(
                self._others(roles.dealer, {s: parts.dealt for s, parts in said.items()}),
                self._others(roles.dealer, commitments),
            ),
        }
        if roles.twin is not None:
            asked[roles.twin] = Collected(
                self._others(roles.twin, {s: parts.again for s, parts in said.items()}),
                self._others(roles.twin, commitments),
                said[roles.dealer].seed,
            )
        return {party: encode(body) for party, body in asked.items()}

    def square(self, prepared: Mapping[int, bytes]) -> dict[int, bytes]:
        """`Square` for both holders, from all roles' answers to `prepare`; raises as that does."""
        roles = self.batch.roles
        self._require(prepared, {roles.dealer, *roles.sites})
        keys = self._read(roles.dealer, prepared[roles.dealer], Keys)
        expected = (self.batch.dealt_bytes, SEALED_SEED, SEALED_SEED)
        self._fits(roles.dealer, (keys.common, *keys.seeds), expected)
        checks: tuple[bytes, bytes] = (b"", b"")
        if roles.twin is not None:
            checks = self._read(roles.twin, prepared[roles.twin], Checks).digests
            self._fits(roles.twin, checks, (SEALED_SEED, SEALED_SEED))
        passed = self._passed(prepared, self.batch.factors.n_bytes)
        return {
            holder: encode(Square(passed[1 - which], keys.common, keys.seeds[which], checks[which]))
            for which, holder in enumerate(roles.holders)
        }

    def compare(self, squared: Mapping[int, bytes]) -> dict[int, bytes]:
        """`Passed` for both holders: each other's share of masked forms; raises as `prepare`."""
        return self._crossed(squared, self.batch.forms.n_bytes)

    def open(self, compared: Mapping[int, bytes]) -> dict[int, bytes]:
        """`Passed` for both holders: each other's shares of the labels; as `compare`."""
        return self._crossed(compared, label_bytes(self.batch))

    def combine(self, opened: Mapping[int, bytes]) -> bytes:
        """`Verdicts`, from what both holders signed.

        Raises:
            ShareError: As `prepare`.
            ForgedSumError: The holders disagree on the bits: one of them lies.
        """
        holders = self.batch.roles.holders
        self._require(opened, holders)
        first, second = (self._read(site, opened[site], Signed) for site in holders)
        for holder, said in zip(holders, (first, second), strict=True):
            try:
                check_signed(self.batch, said)
            except CipherdagError as error:
                raise ShareError(error.message, site=self._name(holder)) from None
        if (first.bits, first.dealt) != (second.bits, second.dealt):
            both = " and ".join(f"'{self._name(site)}'" for site in holders)
            raise ForgedSumError(f"the computing parties {both} say other bits")
        return encode(Verdicts(first.bits, first.dealt, (first.signature, second.signature)))

    def _crossed(self, replies: Mapping[int, bytes], length: int) -> dict[int, bytes]:
        holders = self.batch.roles.holders
        self._require(replies, holders)
        first, second = self._passed(replies, length)
        return {holders[0]: encode(Passed(second)), holders[1]: encode(Passed(first))}

    def _passed(self, replies: Mapping[int, bytes], length: int) -> tuple[bytes, bytes]:
        """The contents that the holders sealed for each other, the first holder's first."""
        contents = []
        for holder in self.batch.roles.holders:
            content = self._read(holder, replies[holder], Passed).content
            self._fits(holder, (content,), (length + SEAL_BYTES,))
            contents.append(content)
        return contents[0], contents[1]

    def _check_lengths(self, site: int, said: Contributed) -> None:
        roles, sealed = self.batch.roles, SEALED_SEED
        first, second = roles.holders
        twin, deals = roles.twin, site == roles.dealer
        expected = (
            0 if site == first else sealed,
            0 if deals else sealed,
            0 if twin is None or site == twin else sealed,
            0 if site == second else self.batch.vector.n_bytes + SEAL_BYTES,
            DIGEST_BYTES,
            sealed if deals and twin is not None else 0,
        )
        parts = (said.first, said.dealt, said.again, said.rest, said.commitment, said.seed)
        self._fits(site, parts, expected)

    def _fits(self, party: int, parts: Iterable[bytes], expected: Iterable[int]) -> None:
        if tuple(map(len, parts)) != tuple(expected):
            raise ShareError(
                "its part of the secure tests is cut short or too long", site=self._name(party)
            )

    def _others(self, party: int, parts: Mapping[int, bytes]) -> tuple[bytes, ...]:
        return tuple(part for site, part in parts.items() if site != party)

    def _require(self, replies: Mapping[int, bytes], asked: Iterable[int]) -> None:
        if set(replies) != set(asked):
            raise ShareError("not just the parties that were asked answered secure tests")

    def _read(self, party: int, reply: bytes, kind: type[BodyType]) -> BodyType:
        try:
            return decode(reply, kind, most_bytes(self.batch, kind))
        except CipherdagError as error:
            raise ShareError(error.message, site=self._name(party)) from None

    def _name(self, party: int) -> str:
        return "coordinator" if party == COORDINATOR else self.names[party]
