"""What a site runs: bytes in, bytes out, and every rule checked before anything leaves.

Acceptance rules of an incoming message, in this order: length and strict form; the coordinator's
pinned signature; session; the step or round it belongs to (`rounds` has the table); the site's
policy. Only then is the answer computed, protected, recorded in the ledger and sent.

The keys of a session are held in memory and die with this object, with the end of the run, or with
the invite to the next one. A run goes on after its coordinator was restarted, since a message that
repeats the last one gets the same bytes; it does not go on at a site that was restarted.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import msgspec

from cipherdag.errors import CipherdagError, PrivacyError, ReplayError, SessionLostError
from cipherdag.protocol.messages import (
    COORDINATOR,
    SESSION_BYTES,
    Ask,
    Body,
    Closed,
    Finish,
    Invite,
    Offers,
    Open,
    Recover,
    Refusal,
    Sealed,
    Topic,
    Unmask,
    decode,
    digest,
    open_envelope,
    read_envelope,
    seal_envelope,
)
from cipherdag.sites.record.ledger import read_releases
from cipherdag.sites.record.opened_sums import OpenedSums
from cipherdag.sites.record.recorder import Recorder
from cipherdag.sites.session.handshake import Handshake
from cipherdag.sites.session.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cipherdag.privacy.identity import SigningIdentity
    from cipherdag.sites.answers.respondent import Respondent
    from cipherdag.sites.policy.policy import Policy
    from cipherdag.sites.record.ledger import Ledger

log = logging.getLogger("cipherdag.site")

Request = TypeVar("Request", bound=Body)

LABELLED = frozenset({"fedcmfs"})
"""Algorithms whose coordinator has to know which positions are labels."""


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


@dataclass(slots=True)
class _Session:
    """Where one session stands at this site; ``repeats`` holds the last reply of each operation."""

    session: bytes
    invite: Invite
    handshake: Handshake | None
    recorder: Recorder
    repeats: dict[str, tuple[bytes, bytes]] = field(default_factory=dict, repr=False)
    rounds: Rounds | None = None


class SiteRuntime:
    """A site of the federation; `handle` is its only door.

    Args:
        profile: Who it is and whom it knows.
        respondent: Computes its answers.
        policy: Its limits.
        ledger: Records what leaves.
        sums: Records which sums were opened; in memory only where None.
    """

    def __init__(
        self,
        profile: SiteProfile,
        respondent: Respondent,
        policy: Policy,
        ledger: Ledger,
        *,
        sums: OpenedSums | None = None,
    ) -> None:
        self._profile = profile
        self._respondent = respondent
        self._policy = policy
        self._ledger = ledger
        self._sums = OpenedSums(profile.schema) if sums is None else sums
        self._current: _Session | None = None
        self._finished = (b"", b"")
        self._seen = {bytes.fromhex(r.session) for r in read_releases(ledger.lines)}

    def handle(self, operation: str, message: bytes) -> bytes:
        """Answer one message; a refusal is an answer too, without data and without a traceback.

        Args:
            operation: One of `messages.OPERATIONS`.
            message: A signed envelope of the coordinator.

        Returns:
            A signed envelope: the reply, or a refusal that names its error. A message that repeats
            the last one of its operation byte for byte gets the same bytes again.
        """
        seen = hashlib.sha256(message).digest()
        repeats = {"finish": self._finished} if self._current is None else self._current.repeats
        last, reply = repeats.get(operation, (b"", b""))
        if last == seen:
            return reply
        try:
            topic, body = self._dispatch(operation, message)
        except PrivacyError as error:
            log.warning("refused %s: %s", operation, error)
            refusal = Refusal(error=type(error).__name__, message=error.message)
            return self._envelope(message, "refusal", refusal)
        except CipherdagError as error:
            # its text may quote a column or a value, so only its name leaves
            log.log(logging.ERROR, "failed on %s: %s", operation, error)
            return self._envelope(
                message, "refusal", Refusal(error=type(error).__name__, message="")
            )
        except Exception:  # whatever failed, its text must not leave the site
            log.exception("failed on %s", operation)
            return self._envelope(
                message, "refusal", Refusal(error="SiteComputationError", message="")
            )
        reply = self._envelope(message, topic, body)
        if self._current is None:
            self._finished = (seen, reply)
        else:
            self._current.repeats[operation] = (seen, reply)
        return reply

    def _envelope(self, message: bytes, topic: Topic, body: Body) -> bytes:
        return seal_envelope(
            self._profile.identity,
            session=_session_of(message),
            sender=self._profile.name,
            topic=topic,
            body=body,
        )

    def _dispatch(self, operation: str, message: bytes) -> tuple[Topic, Body]:
        steps: dict[str, Callable[[bytes], tuple[Topic, Body]]] = {
            "invite": self._invite,
            "offers": self._offers,
            "sealed": self._sealed,
            "ask": lambda m: ("share", self._rounds().ask(self._read(m, "ask", Ask))),
            "unmask": lambda m: (
                "unmasked",
                self._rounds().unmask(self._read(m, "unmask", Unmask)),
            ),
            "recover": lambda m: (
                "recovered",
                self._rounds().recover(self._read(m, "recover", Recover)),
            ),
            "open": lambda m: ("opened", self._rounds().open(self._read(m, "open", Open))),
            "finish": self._finish,
        }
        if operation not in steps:
            raise ReplayError("this site knows no such operation")
        if operation != "invite":
            self._check_held(operation, message)
        return steps[operation](message)

    def _check_held(self, operation: str, message: bytes) -> None:
        """Tell the coordinator of an earlier run that its keys are gone, and nobody else."""
        session = _session_of(message)
        current = self._current.session if self._current is not None else b""
        if session != current and session in self._seen:
            self._verified(message, session, operation)  # type: ignore[arg-type]
            raise SessionLostError("the keys of this run are not held any more")

    @property
    def in_session(self) -> bool:
        """Whether keys of a run are held."""
        return self._current is not None

    def _invite(self, message: bytes) -> tuple[Topic, Body]:
        session = read_envelope(message).session
        invite = decode(self._verified(message, session, "invite"), Invite)
        if session in self._seen:
            raise ReplayError("the session was opened before")
        self._policy.check_run(
            algorithm=invite.algorithm,
            protection=invite.protection,
            n_sites=len(invite.cohort),
            rows=self._profile.rows,
        )
        self._policy.check_colluders(invite.colluders, n_sites=len(invite.cohort))
        handshake = Handshake(
            name=self._profile.name,
            identity=self._profile.identity,
            pinned=self._profile.pinned,
            schema=self._profile.schema,
            session=session,
            invite=invite,
        )
        self._seen.add(session)
        recorder = Recorder(self._ledger, session, invite)
        self._current = _Session(session, invite, handshake, recorder)
        return "offer", handshake.offer()

    def _offers(self, message: bytes) -> tuple[Topic, Body]:
        _, handshake = self._setting_up()
        return "seals", handshake.seals(self._read(message, "offers", Offers))

    def _sealed(self, message: bytes) -> tuple[Topic, Body]:
        current, handshake = self._setting_up()
        keyring, ready = handshake.finish(self._read(message, "sealed", Sealed))
        current.rounds = Rounds(
            session=current.session,
            invite=current.invite,
            index=handshake.index,
            invite_digest=handshake.invite_digest,
            transcript=keyring.transcript,
            aggregation=keyring.aggregation,
            agreement=keyring.agreement,
            respondent=self._respondent,
            policy=self._policy,
            recorder=current.recorder,
            sums=self._sums,
        )
        current.recorder.write(
            round_number=0,
            kind="schema-digest",
            values=1,
            content=ready.schema_digest,
            digest=digest(b"setup", handshake.invite_digest),
            sites=len(current.invite.cohort),
        )
        current.handshake = None  # the private halves of its keys are not needed any more
        labels = self._profile.labels if current.invite.algorithm in LABELLED else ()
        if labels:
            current.recorder.write(
                round_number=0,
                kind="label-positions",
                values=len(labels),
                content=msgspec.msgpack.encode(labels),
                digest=digest(b"setup", handshake.invite_digest),
                sites=len(current.invite.cohort),
            )
        return "ready", msgspec.structs.replace(
            ready, n_variables=self._respondent.n_variables, labels=labels
        )

    def _finish(self, message: bytes) -> tuple[Topic, Body]:
        self._rounds()
        self._read(message, "finish", Finish)
        self._current = None
        head = self._ledger.head
        return "closed", Closed(ledger_head=bytes.fromhex(head.hash), records=head.records)

    def _verified(self, message: bytes, session: bytes, topic: Topic) -> bytes:
        return open_envelope(
            message,
            identity=self._profile.coordinator,
            session=session,
            sender=COORDINATOR,
            topic=topic,
        )

    def _read(self, message: bytes, topic: Topic, kind: type[Request]) -> Request:
        if self._current is None:
            raise ReplayError("the message is out of step: no session is open")
        return decode(self._verified(message, self._current.session, topic), kind)

    def _setting_up(self) -> tuple[_Session, Handshake]:
        if self._current is None or self._current.handshake is None:
            raise ReplayError("the message is out of step with the session's set-up")
        return self._current, self._current.handshake

    def _rounds(self) -> Rounds:
        if self._current is None or self._current.rounds is None:
            raise ReplayError("the message is out of step: the session is not set up")
        return self._current.rounds


def _session_of(message: bytes) -> bytes:
    """The session a message claims, so that even a refusal names it; zeros where unreadable."""
    try:
        return read_envelope(message).session
    except PrivacyError:
        return bytes(SESSION_BYTES)
