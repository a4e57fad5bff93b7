"""What a site runs: bytes in, bytes out, and every rule checked before anything leaves.

A message goes one way: it is opened once (`incoming`), admitted (`admission`), and answered here;
only then is the answer protected, recorded in the ledger and sent.

The keys of a session are held in memory and die with this object, with the end of the run, or with
the invite to the next one. A run goes on after its coordinator was restarted, since a message that
repeats the last one gets the same bytes; it does not go on at a site that was restarted.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from cipherdag.algorithms.registry import reads_labels
from cipherdag.errors import CipherdagError, PrivacyError
from cipherdag.protocol.messages import (
    REPLIES,
    Ask,
    Body,
    Closed,
    Finish,
    Invite,
    Offer,
    Offers,
    Open,
    Ready,
    Recover,
    Refusal,
    Sealed,
    Share,
    Topic,
    Unmask,
    digest,
    seal_envelope,
)
from cipherdag.sites.record.ledger import read_releases
from cipherdag.sites.record.opened_sums import OpenedSums
from cipherdag.sites.session.admission import Admission, HeldSession
from cipherdag.sites.session.handshake import Handshake
from cipherdag.sites.session.incoming import Incoming, open_message
from cipherdag.sites.session.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cipherdag.privacy.identity import SigningIdentity
    from cipherdag.sites.answers.respondent import Respondent
    from cipherdag.sites.policy.policy import Policy
    from cipherdag.sites.record.ledger import Ledger
    from cipherdag.sites.session.admission import FolderLimits

log = logging.getLogger("cipherdag.site")


@dataclass(frozen=True, slots=True)
class SiteProfile:
    """Who a site is and whom it knows: pinned public identity keys of 32 bytes each.

    ``labels`` are the positions of the variables that the schema marks as labels.
    """

    name: str
    identity: SigningIdentity
    coordinator: bytes
    pinned: Mapping[str, bytes]
    schema: bytes
    rows: int
    labels: tuple[int, ...] = ()


class SiteRuntime:
    """A site of the federation; `handle` is its only door.

    Args:
        profile: Who it is and whom it knows.
        respondent: Computes its answers.
        policy: Its limits.
        ledger: Records what leaves.
        sums: Records which sums were opened; in memory only where None.
        folder: The limits that its folder adds; none for a site in memory.
    """

    def __init__(
        self,
        profile: SiteProfile,
        respondent: Respondent,
        policy: Policy,
        ledger: Ledger,
        *,
        sums: OpenedSums | None = None,
        folder: FolderLimits | None = None,
    ) -> None:
        self._profile = profile
        self._respondent = respondent
        self._policy = policy
        self._ledger = ledger
        self._sums = OpenedSums(profile.schema) if sums is None else sums
        self._folder = folder
        self._seen = {bytes.fromhex(r.session) for r in read_releases(ledger.lines)}
        self._admission = Admission(policy, profile.rows, self._sums, self._seen, folder)
        self._current = HeldSession()

    def handle(self, operation: str, message: bytes) -> bytes:
        """Answer one message; a refusal is an answer too, without data and without a traceback.

        Args:
            operation: One of `messages.OPERATIONS`.
            message: A signed envelope of the coordinator.

        Returns:
            A signed envelope: the reply, or a refusal that names its error. A message that repeats
            the last one of its operation byte for byte gets the same bytes again.
        """
        return self.answer(open_message(operation, message, coordinator=self._profile.coordinator))

    def answer(self, message: Incoming) -> bytes:
        """Answer a message that was opened under this site's coordinator; see `handle`."""
        last, reply = self._current.repeats.get(message.operation, (b"", b""))
        if last == message.digest:
            return reply
        try:
            body = self._answered(message)
        except PrivacyError as error:
            log.warning("refused %s: %s", message.operation, error)
            return self._refusal(message, type(error).__name__, error.message)
        except CipherdagError as error:
            # its text may quote a column or a value, so only its name leaves
            log.log(logging.ERROR, "failed on %s: %s", message.operation, error)
            return self._refusal(message, type(error).__name__, "")
        except Exception:  # whatever failed, its text must not leave the site
            log.exception("failed on %s", message.operation)
            return self._refusal(message, "SiteComputationError", "")
        reply = self._envelope(message.session, REPLIES[message.operation], body)
        self._current.repeats[message.operation] = message.digest, reply
        return reply

    def _refusal(self, message: Incoming, error: str, text: str) -> bytes:
        return self._envelope(message.session, "refusal", Refusal(error=error, message=text))

    def _envelope(self, session: bytes, topic: Topic, body: Body) -> bytes:
        own = self._profile
        return seal_envelope(own.identity, session=session, sender=own.name, topic=topic, body=body)

    def _answered(self, message: Incoming) -> Body:
        """The reply to a message, if it is admitted."""
        held = self._current
        reply: Body
        match self._admission.admit(message, held):
            case Invite() as invite:
                reply = self._begin(message.session, invite)
            case Offers() as offers:
                reply = held.setting_up().seals(offers)
            case Sealed() as sealed:
                reply = self._set_up(sealed)
            case Ask() as ask:
                reply = self._ask(ask)
            case Unmask() as unmask:
                reply = held.set_up().unmask(unmask)
            case Recover() as recover:
                reply = held.set_up().recover(recover)
            case Open() as request:
                reply = held.set_up().open(request)
            case Finish():
                reply = self._finish()
        return reply

    def _begin(self, session: bytes, invite: Invite) -> Offer:
        handshake = Handshake(self._profile, session, invite)
        self._seen.add(session)
        if self._folder is not None:
            self._folder.budget.start_run()
        self._current = HeldSession(session, handshake)
        return handshake.offer()

    def _set_up(self, sealed: Sealed) -> Ready:
        current = self._current
        handshake = current.setting_up()
        invite = handshake.invite
        keyring, ready = handshake.finish(sealed)
        record = partial(
            self._ledger.append,
            session=current.session,
            algorithm=invite.algorithm,
            protection=invite.protection,
        )
        current.rounds = Rounds(
            session=current.session,
            invite=invite,
            index=handshake.index,
            invite_digest=handshake.invite_digest,
            transcript=keyring.transcript,
            aggregation=keyring.aggregation,
            agreement=keyring.agreement,
            respondent=self._respondent,
            policy=self._policy,
            record=record,
            sums=self._sums,
        )
        labels = self._profile.labels if reads_labels(invite.algorithm) else ()
        told = [("schema-digest", 1, ready.schema_digest)]
        if labels:
            told.append(("label-positions", len(labels), msgspec.msgpack.encode(labels)))
        for kind, values, content in told:
            record(
                round_number=0,
                kind=kind,
                values=values,
                content=content,
                digest=digest(b"setup", handshake.invite_digest),
                sites=len(invite.cohort),
            )
        current.handshake = None  # the private halves of its keys are not needed any more
        return msgspec.structs.replace(
            ready, n_variables=self._respondent.n_variables, labels=labels
        )

    def _ask(self, ask: Ask) -> Share:
        try:
            return self._current.set_up().ask(ask)
        finally:
            if self._folder is not None:
                self._folder.budget.save()

    def _finish(self) -> Closed:
        self._current = HeldSession()
        head = self._ledger.head
        return Closed(ledger_head=bytes.fromhex(head.hash), records=head.records)
