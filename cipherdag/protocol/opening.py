"""From all shares to the sum: seeds released or recovered, and the sum opened.

Leaks:
    The sum over the sites asked, to the coordinator; under BFV also to the site that opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cipherdag.errors import ResultMismatchError, ShareError, SiteUnreachableError
from cipherdag.privacy.aggregation import Aggregate, Declaration
from cipherdag.privacy.key_graph import KeyGraph
from cipherdag.privacy.keys.agreement import TAG_BYTES
from cipherdag.privacy.sums import CoordinatorAggregation
from cipherdag.protocol.cohort_channel import CohortChannel
from cipherdag.protocol.messages import (
    Closed,
    Open,
    Opened,
    Recover,
    Recovered,
    Share,
    Unmask,
    Unmasked,
)


def check_share(share: Share, others: int) -> None:
    """Raise ShareError unless the site has a piece and a word for so many others that share a key.

    All others, where every two sites share one.
    """
    if len(share.escrow) not in (0, others) or len(share.tags) != others:
        raise ShareError("its sealed pieces and its word are not one for every other site")
    if any(len(tag) != TAG_BYTES for tag in share.tags):
        raise ShareError("its word to a site is cut short or too long")


@dataclass(slots=True)
class Opening:
    """Opens one round's sum.

    Attributes:
        channel: Carries the messages.
        protection: The coordinator's side of the protection.
        declared: What the shares are for.
        graph: Who shares a key with whom.
        names: The cohort's sites in order.
        number: The round.
        leave: Told of every site that is gone: its position, the step and the reason.
        present: The sites that are still there.
    """

    channel: CohortChannel
    protection: CoordinatorAggregation
    declared: Declaration
    graph: KeyGraph
    names: tuple[str, ...]
    number: int
    leave: Callable[[int, str, str], None]
    present: tuple[int, ...] = field(default=())

    def total(
        self, shares: Mapping[int, Share], require: Callable[[tuple[int, ...], str], None]
    ) -> Aggregate:
        """The sum over the sites asked; ``require`` refuses to go on with too few of them."""
        seeds = self.released(shares)
        require(self.present, "unmask")
        return self.sum(shares, seeds | self.recovered(shares))

    def released(self, shares: Mapping[int, Share]) -> dict[int, bytes]:
        """The seeds that the sites release, by position; those that release none have left."""
        digest, asked = self.declared.digest, frozenset(self.declared.sites)
        peers = {own: self.graph.peers(own, asked) for own in self.declared.sites}
        said = {own: dict(zip(peers[own], shares[own].tags, strict=True)) for own in peers}
        requests = {
            position: Unmask(digest=digest, tags=tuple([said[own][position] for own in others]))
            for position, others in peers.items()
        }
        replies = self.channel.exchange("unmask", requests, Unmasked)
        seeds = {position: reply.seed for position, reply in replies.bodies.items()}
        self.present = tuple(sorted(seeds))
        for vanished, reason in replies.failures.items():
            self.leave(vanished, "unmask", reason)
        return seeds

    def recovered(self, shares: Mapping[int, Share]) -> dict[int, bytes]:
        """The seeds of the sites that left since their shares came, from the others' pieces.

        Raises:
            SiteUnreachableError: A seed cannot be recovered, since too few sites answered.
            ShareError: The pieces of a seed are missing, or one was altered.
        """
        left = [position for position in self.declared.sites if position not in self.present]
        return {position: self._recovered(position, shares[position]) for position in left}

    def sum(self, shares: Mapping[int, Share], seeds: Mapping[int, bytes]) -> Aggregate:
        """The sum over the sites asked.

        Raises:
            SiteUnreachableError: No site is left to open it.
            AggregateRangeError: It lies outside what the sites can produce.
            ShareError: Shares and seeds do not fit together.
        """
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
            self.leave(opener, "open", replies.failures.get(opener, "foreign sum"))
            self.present = tuple(position for position in self.present if position != opener)
        raise SiteUnreachableError("no site is left to open the sum")


def agreed_result(closed: Mapping[int, Closed], name: Callable[[int], str]) -> bytes:
    """What all sites say the run came to, by position; ``name`` is that of a site.

    Raises:
        ResultMismatchError: One says something else than the first.
    """
    results = {position: own.result for position, own in closed.items()}
    first = next(iter(results.values()), b"")
    for position, result in results.items():
        if result != first:
            raise ResultMismatchError(
                "it came to another result than the others", site=name(position)
            )
    return first
