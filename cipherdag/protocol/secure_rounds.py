"""Rounds whose sums are never opened: secure tests, by way of the coordinator.

    exchange   to                         carries            answers
    ask        every site                 (the next step)    its sealed parts
    secure     dealer, twin, holders      prepare            keys, checks, shares
    secure     both holders               square             shares
    secure     both holders               compare            shares
    secure     both holders               open               signed bits
    ask        every site                 the verdicts       as above

Who has which role is drawn once a run, from numbers that the sites commit to before any of them is
told. A site without a role that does not answer is left out, and the question is asked again; one
with a role ends the run.

Leaks:
    The verdicts, to everybody. See `cipherdag.privacy.mpc`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from cipherdag.errors import (
    SessionLostError,
    ShareError,
    SiteUnreachableError,
)
from cipherdag.privacy.aggregation import Aggregate
from cipherdag.privacy.mpc.batch import COORDINATOR, Batch
from cipherdag.privacy.mpc.party import Party
from cipherdag.privacy.mpc.relay import Relay
from cipherdag.privacy.mpc.seat import Seat
from cipherdag.privacy.mpc.verdicts import read_verdicts
from cipherdag.protocol.cohort_channel import CohortChannel
from cipherdag.protocol.messages import Secure, Secured, Share, Verb
from cipherdag.protocol.plan import Plan

RESUME: Final = (
    "If it comes back and was not restarted, go on by `cipherdag coordinator run --resume`; else "
    "start a new run, in which the roles are drawn anew."
)
DEALT_ANEW: Final = "Start a new run: the keys that it deals by are never written down."


@dataclass(frozen=True, slots=True)
class SecureRound:
    """The coordinator's part in one round: it relays, and deals where there are two sites.

    Attributes:
        channel: Carries the messages.
        plan: The plan.
        digest: Of the question, as the sites have it.
        batch: What is asked of whom.
        seat: The dealer's part, where the coordinator deals.
    """

    channel: CohortChannel
    plan: Plan
    digest: bytes
    batch: Batch
    seat: Seat | None

    @classmethod
    def begun(
        cls, channel: CohortChannel, plan: Plan, digest_: bytes, batch: Batch, party: Party | None
    ) -> SecureRound:
        """A round that the coordinator takes its own part in, if it has one.

        Raises:
            SessionLostError: It deals, and was restarted.
        """
        if batch.roles.dealer != COORDINATOR:
            return cls(channel, plan, digest_, batch, None)
        if party is None:
            raise SessionLostError(
                "the coordinator, which deals for two sites, was restarted", remedy=DEALT_ANEW
            )
        return cls(channel, plan, digest_, batch, party.begin(batch))

    def check(self, position: int, share: Share) -> None:
        """Raise ShareError unless a site sent its parts, of the right lengths, and no more."""
        if share.escrow or share.tags:
            raise ShareError("it sent more than its parts of the secure tests")
        self._relay.check(position, share.share)

    def require(self, failures: Mapping[int, str], what: str) -> None:
        """Raise SiteUnreachableError where a site with a role did not answer; it names the role."""
        for position in (own for own in self.batch.roles.sites if own in failures):
            role = self.batch.role_of(position)
            raise SiteUnreachableError(
                f"it is the {role} of the secure tests and did not answer round "
                f"{self.batch.attempt}, {what} ({failures[position]})",
                site=self.plan.cohort[position].name,
                remedy=RESUME,
            )

    def verdicts(self, shares: Mapping[int, Share]) -> Aggregate:
        """The verdicts, 0 or 1, and what the sites read them from.

        Raises:
            SiteUnreachableError: A site with a role did not answer, or refused.
            ShareError: What it answered is cut short or too long.
            ForgedSumError: The holders say other bits, or did not sign them.
            ComparisonKeyError, AggregateRangeError: As a party of the kernel, where the coordinator
                deals.
        """
        relay = self._relay
        requests = relay.prepare({site: share.share for site, share in shares.items()})
        steps: tuple[tuple[Verb, Callable[[Mapping[int, bytes]], dict[int, bytes]]], ...] = (
            ("prepare", relay.square),
            ("square", relay.compare),
            ("compare", relay.open),
        )
        for verb, following in steps:
            requests = following(self._asked(verb, requests))
        content = relay.combine(self._asked("open", requests))
        identities = [member.identity for member in self.plan.cohort]
        holders = [identities[site] for site in self.batch.roles.holders]
        bits = read_verdicts(content, self.batch, holders)
        return Aggregate(values=bits.astype(np.float64), content=content)

    @property
    def _relay(self) -> Relay:
        return Relay(self.batch, [member.name for member in self.plan.cohort])

    def _asked(self, verb: Verb, requests: dict[int, bytes]) -> dict[int, bytes]:
        """What all parties with a role answer."""
        found = {}
        if COORDINATOR in requests and self.seat is not None:
            found[COORDINATOR] = self.seat.prepare(requests.pop(COORDINATOR))
        bodies = {site: Secure(self.digest, verb, own) for site, own in requests.items()}
        replies = self.channel.exchange("secure", bodies, Secured)
        self.require(replies.failures, verb)
        for position, reply in replies.bodies.items():
            if reply.digest != self.digest:
                raise ShareError("it answered another round", site=self.plan.cohort[position].name)
            found[position] = reply.content
        return found
