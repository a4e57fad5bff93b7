"""The end of a round: its sum is opened from all shares, or verdicts are found in secure tests.

Seeds are released or recovered, and the sum is opened (`Opening`). Where sums are never opened, the
coordinator relays the messages of secure tests (`SecureRound`), as `privacy.mpc.messages` lists
them; each site's parts come as its share, and the verdicts go with the next question. A site
without a role that does not answer is left out, and the question is asked again; one with a role
ends the run.

Leaks:
    The sum over the sites asked, to the coordinator; under BFV also to the site that opens it. Of
    secure tests the verdicts, to everybody; see `cipherdag.privacy.mpc`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np

from cipherdag.errors import (
    CipherdagError,
    ResultMismatchError,
    SessionLostError,
    ShareError,
    SiteUnreachableError,
)
from cipherdag.privacy.aggregation import Aggregate, Declaration
from cipherdag.privacy.key_graph import KeyGraph
from cipherdag.privacy.keys.pairkeys import TAG_BYTES
from cipherdag.privacy.mpc.batch import COORDINATOR, Batch
from cipherdag.privacy.mpc.messages import Relay, read_verdicts
from cipherdag.privacy.mpc.party import Party
from cipherdag.privacy.mpc.seat import Seat
from cipherdag.privacy.sums import CoordinatorAggregation
from cipherdag.protocol.asked import Answers, Context, Recall, encoded
from cipherdag.protocol.cohort_channel import CohortChannel
from cipherdag.protocol.messages import (
    Ask,
    Closed,
    Open,
    Opened,
    Recover,
    Recovered,
    Secure,
    Secured,
    Share,
    Unmask,
    Unmasked,
    Verb,
)
from cipherdag.protocol.progress import DropOuts
from cipherdag.protocol.secure_tests import batch_of


def check_share(share: Share, others: int) -> None:
    """Raise ShareError without a piece and a word for each of the sites that share a key."""
    if len(share.escrow) not in (0, others) or len(share.tags) != others:
        raise ShareError("its sealed pieces and its word are not one for every other site")
    if any(len(tag) != TAG_BYTES for tag in share.tags):
        raise ShareError("its word to a site is cut short or too long")


@dataclass(slots=True)
class Opening:
    """Opens one round's sum; ``present`` are the sites that are still there.

    ``dropouts`` hear of every site that is gone; they refuse to go on with too few.
    """

    channel: CohortChannel
    protection: CoordinatorAggregation
    declared: Declaration
    graph: KeyGraph
    names: tuple[str, ...]
    number: int
    dropouts: DropOuts
    present: tuple[int, ...] = field(default=())

    def total(self, shares: Mapping[int, Share]) -> Aggregate:
        """The sum over the sites asked; raises SiteUnreachableError where too few are left."""
        seeds = self.released(shares)
        self.dropouts.require(self.present, self.number, "unmask")
        return self.sum(shares, seeds | self.recovered(shares))

    def released(self, shares: Mapping[int, Share]) -> dict[int, bytes]:
        """The seeds that the sites release, by position; those that release none have left."""
        digest, asked = self.declared.digest, frozenset(self.declared.sites)
        peers = {site: self.graph.peers(site, asked) for site in self.declared.sites}
        said = {site: dict(zip(peers[site], shares[site].tags, strict=True)) for site in peers}
        requests = {
            position: Unmask(digest=digest, tags=tuple([said[site][position] for site in others]))
            for position, others in peers.items()
        }
        replies = self.channel.exchange("unmask", requests, Unmasked)
        seeds = {position: reply.seed for position, reply in replies.bodies.items()}
        self.present = tuple(sorted(seeds))
        for vanished, reason in replies.failures.items():
            self.dropouts.record(vanished, self.number, "unmask", reason, in_sum=True)
        return seeds

    def recovered(self, shares: Mapping[int, Share]) -> dict[int, bytes]:
        """The seeds of the sites that left since their shares came, from the others' pieces.

        SiteUnreachableError where too few sites answered, ShareError where a piece was altered.
        """
        left = [position for position in self.declared.sites if position not in self.present]
        return {position: self._recovered(position, shares[position]) for position in left}

    def sum(self, shares: Mapping[int, Share], seeds: Mapping[int, bytes]) -> Aggregate:
        """The sum; SiteUnreachableError if no site opens it; as `CoordinatorAggregation.open`."""
        masked = {position: shares[position].share for position in self.declared.sites}
        combined = self.protection.combine(masked, self.declared)
        if self.protection.opened_by_site:
            combined = self._opened(combined, seeds)
        return self.protection.open(combined, seeds, self.declared)

    def _recovered(self, vanished: int, share: Share) -> bytes:
        if not share.escrow:
            return self._rebuilt(vanished, {})
        others = self.graph.peers(vanished, self.declared.sites)
        sealed = dict(zip(others, share.escrow, strict=True))
        bodies = {
            position: Recover(
                digest=self.declared.digest, vanished=vanished, piece=sealed[position]
            )
            for position in self.present
            if position in sealed
        }
        replies = self.channel.exchange("recover", bodies, Recovered)
        pieces = {position: reply.piece for position, reply in replies.bodies.items()}
        fewest = self.declared.threshold
        if len(pieces) < fewest:
            raise SiteUnreachableError(
                f"its mask needs {fewest} sites to recover, {len(pieces)} answered",
                site=self.names[vanished],
            )
        return self._rebuilt(vanished, pieces)

    def _rebuilt(self, vanished: int, pieces: Mapping[int, bytes]) -> bytes:
        try:
            return self.protection.rebuild(pieces, self.declared)
        except ShareError as error:
            error.site = self.names[vanished]
            raise

    def _opened(self, combined: bytes, seeds: Mapping[int, bytes]) -> bytes:
        """Have a site open the sum; the sites take turns, and the next one steps in if need be."""
        request = Open(
            digest=self.declared.digest,
            combined=combined,
            seeds=tuple(seeds[position] for position in sorted(seeds)),
        )
        turn = self.number % len(self.present)
        for opener in (*self.present[turn:], *self.present[:turn]):
            replies = self.channel.exchange("open", {opener: request}, Opened)
            if opener in replies.bodies and replies.bodies[opener].digest == self.declared.digest:
                return replies.bodies[opener].words
            reason = replies.failures.get(opener, "foreign sum")
            self.dropouts.record(opener, self.number, "open", reason, in_sum=True)
            self.present = tuple(position for position in self.present if position != opener)
        raise SiteUnreachableError("no site is left to open the sum")


def agreed_result(closed: Mapping[int, Closed], names: Sequence[str]) -> bytes:
    """The digest that all sites sign of the result; ResultMismatchError if one differs."""
    results = {position: reply.result for position, reply in closed.items()}
    first = next(iter(results.values()), b"")
    for position, result in results.items():
        if result != first:
            raise ResultMismatchError(
                "it came to another result than the others", site=names[position]
            )
    return first


RESUME: Final = (
    "If it comes back and was not restarted, go on by `cipherdag coordinator run --resume`; else "
    "start a new run. Roles of the same sites stay the same: a study without it has others."
)
DEALT_ANEW: Final = "Start a new run: the keys that it deals by are never written down."


@dataclass(frozen=True, slots=True)
class SecureRound:
    """The coordinator's part in one round: it relays, and deals where there are two sites.

    ``digest`` is that of the question, as the sites have it, and ``seat`` the dealer's part, where
    the coordinator deals. A site with a role that does not answer, or refuses, is a
    SiteUnreachableError.
    """

    channel: CohortChannel
    digest: bytes
    number: int
    context: Context
    recall: Recall
    _batch: Batch | None
    seat: Seat | None

    @classmethod
    def begun(
        cls,
        channel: CohortChannel,
        digest_: bytes,
        context: Context,
        recall: Recall,
        ask: Ask,
        sums: bytes,
        party: Party | None,
    ) -> SecureRound:
        """A round with the coordinator's part, if any; SessionLostError after a restart."""
        batch = seat = None
        if recall.rest is not None:
            batch = batch_of(context, ask, recall, sums)
            if batch.roles.dealer == COORDINATOR:
                if party is None:
                    raise SessionLostError(
                        "the coordinator, which deals for two sites, was restarted",
                        remedy=DEALT_ANEW,
                    )
                seat = party.begin(batch)
        return cls(channel, digest_, ask.number, context, recall, batch, seat)

    @property
    def batch(self) -> Batch:
        """What is asked of whom, where not all bits are known."""
        return cast("Batch", self._batch)

    def check(self, position: int, share: Share) -> None:
        """Raise ShareError unless a site sent its parts, of the right lengths, and no more."""
        if share.escrow or share.tags:
            raise ShareError("it sent more than its parts of the secure tests")
        if share.found or self.recall.rest is None:
            if share.share:
                raise ShareError("it sent parts of secure tests that were answered before")
        else:
            self._relay.check(position, share.share)

    def learn(self, shares: Mapping[int, Share], answers: Answers) -> tuple[bytes, ...]:
        """Lines of earlier bits that sites sent in place of parts, checked as `Answers.add`."""
        if not any(share.found for share in shares.values()):
            return ()
        for position, share in shares.items():
            try:
                answers.add(share.found)
            except CipherdagError as error:
                error.site = self.context.names[position]
                raise
        return encoded(answers.lines)

    @property
    def recalled(self) -> Aggregate:
        """The verdicts where all bits are known before; nothing is sent to the sites."""
        return Aggregate(values=self.recall.values(np.zeros(0)), content=b"")

    def require(self, failures: Mapping[int, str], what: str) -> None:
        """Raise SiteUnreachableError where a site with a role did not answer; it names the role."""
        for position in (site for site in self.context.roles.sites if site in failures):
            raise SiteUnreachableError(
                f"it is the {self.context.roles.of(position)} of the secure tests and did not "
                f"answer round {self.number}, {what} ({failures[position]})",
                site=self.context.names[position],
                remedy=RESUME,
            )

    def found(self, shares: Mapping[int, Share]) -> dict[int, bytes]:
        """The requests for the verdicts to both computing parties (holders), by position.

        ShareError for an answer of wrong length; as `Seat.prepare` where the coordinator deals.
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
        return requests

    def opened(self, requests: dict[int, bytes]) -> Aggregate:
        """The verdicts, 0 or 1, and what the sites read them from.

        ShareError where an answer is cut short or too long, ForgedSumError where the holders say
        other bits, or did not sign them.
        """
        content = self._relay.combine(self._asked("open", dict(requests)))
        first, second = (self.context.identities[each] for each in self.context.roles.holders)
        bits = read_verdicts(content, self.batch, (first, second))
        values = self.recall.values(bits.astype(np.float64))
        return Aggregate(values=values, content=content)

    @property
    def _relay(self) -> Relay:
        return Relay(self.batch, self.context.names)

    def _asked(self, verb: Verb, requests: dict[int, bytes]) -> dict[int, bytes]:
        contents = {}
        if COORDINATOR in requests and self.seat is not None:
            contents[COORDINATOR] = self.seat.prepare(requests.pop(COORDINATOR))
        bodies = {site: Secure(self.digest, verb, content) for site, content in requests.items()}
        replies = self.channel.exchange("secure", bodies, Secured)
        self.require(replies.failures, verb)
        for position, reply in replies.bodies.items():
            if reply.digest != self.digest:
                raise ShareError("it answered another round", site=self.context.names[position])
            contents[position] = reply.content
        return contents
