"""What a site runs: bytes in, bytes out, and every rule checked before anything leaves.

Acceptance rules of an incoming message, in this order: length and strict form; the coordinator's
pinned signature; session; step or round number; every site's receipt of the round before; the
site's policy. Only then is the answer computed, protected, recorded in the ledger and sent.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from cipherdag.algorithms.questions import question_kinds
from cipherdag.errors import (
    CipherdagError,
    InconsistentQuestionError,
    PrivacyError,
    ReplayError,
    SignatureError,
)
from cipherdag.privacy.identity import SigningIdentity, verify
from cipherdag.protocol.messages import (
    COORDINATOR,
    RECEIPT_DOMAIN,
    SESSION_BYTES,
    Ask,
    Body,
    Closed,
    Finish,
    Invite,
    Offers,
    Open,
    Opened,
    Refusal,
    Sealed,
    Share,
    Topic,
    declaration,
    decode,
    digest,
    open_envelope,
    question_digest,
    read_envelope,
    seal_envelope,
)
from cipherdag.sites.handshake import Handshake, Keyring

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cipherdag.privacy.aggregation import Declaration
    from cipherdag.sites.answers import Respondent
    from cipherdag.sites.ledger import Ledger
    from cipherdag.sites.policy import Policy

log = logging.getLogger("cipherdag.site")


@dataclass(frozen=True, slots=True)
class SiteProfile:
    """Who a site is and whom it knows: pinned public identity keys of 32 bytes each."""

    name: str
    identity: SigningIdentity
    coordinator: bytes
    pinned: Mapping[str, bytes]
    schema: bytes
    rows: int


@dataclass(slots=True)
class _Session:
    """Where one session stands at this site."""

    session: bytes
    invite: Invite
    handshake: Handshake
    keyring: Keyring | None = None
    number: int = 0
    declared: Declaration | None = None
    opened: bool = False
    values: int = 0


class SiteRuntime:
    """A site of the federation; `handle` is its only door.

    Args:
        profile: Who it is and whom it knows.
        respondent: Computes its answers.
        policy: Its limits.
        ledger: Records what leaves.
    """

    def __init__(
        self, profile: SiteProfile, respondent: Respondent, policy: Policy, ledger: Ledger
    ) -> None:
        self._profile = profile
        self._respondent = respondent
        self._policy = policy
        self._ledger = ledger
        self._current: _Session | None = None
        self._seen: set[bytes] = set()

    def handle(self, operation: str, message: bytes) -> bytes:
        """Answer one message; a refusal is an answer too, without data and without a traceback.

        Args:
            operation: The topic: ``invite``, ``offers``, ``sealed``, ``ask``, ``open``, ``finish``.
            message: A signed envelope of the coordinator.

        Returns:
            A signed envelope: the reply, or a refusal that names its error.
        """
        try:
            topic, reply = self._dispatch(operation, message)
        except PrivacyError as error:
            topic, reply = "refusal", Refusal(error=type(error).__name__, message=error.message)
            log.warning("refused %s: %s", operation, error)
        except CipherdagError as error:
            # its text may quote a column or a value, so only its name leaves
            topic, reply = "refusal", Refusal(error=type(error).__name__, message="")
            log.log(logging.ERROR, "failed on %s: %s", operation, error)
        except Exception:  # whatever failed, its text must not leave the site
            topic, reply = "refusal", Refusal(error="SiteComputationError", message="")
            log.exception("failed on %s", operation)
        return seal_envelope(
            self._profile.identity,
            session=_session_of(message),
            sender=self._profile.name,
            topic=topic,
            body=reply,
        )

    def _dispatch(self, operation: str, message: bytes) -> tuple[Topic, Body]:
        steps: dict[str, Callable[[bytes], tuple[Topic, Body]]] = {
            "invite": self._invite,
            "offers": self._offers,
            "sealed": self._sealed,
            "ask": self._ask,
            "open": self._open,
            "finish": self._finish,
        }
        if operation not in steps:
            raise ReplayError("this site knows no such operation")
        return steps[operation](message)

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
        handshake = Handshake(
            name=self._profile.name,
            identity=self._profile.identity,
            pinned=self._profile.pinned,
            schema=self._profile.schema,
            session=session,
            invite=invite,
        )
        self._seen.add(session)
        self._current = _Session(session, invite, handshake)
        return "offer", handshake.offer()

    def _offers(self, message: bytes) -> tuple[Topic, Body]:
        current = self._session(keyed=False)
        body = self._verified(message, current.session, "offers")
        return "seals", current.handshake.seals(decode(body, Offers))

    def _sealed(self, message: bytes) -> tuple[Topic, Body]:
        current = self._session(keyed=False)
        body = self._verified(message, current.session, "sealed")
        current.keyring, ready, _ = current.handshake.finish(decode(body, Sealed))
        ready = msgspec.structs.replace(ready, n_variables=self._respondent.n_variables)
        self._record(current, "schema-digest", 1, ready.schema_digest, b"")
        return "ready", ready

    def _ask(self, message: bytes) -> tuple[Topic, Body]:
        current = self._session(keyed=True)
        ask = decode(self._verified(message, current.session, "ask"), Ask)
        if ask.number != current.number + 1:
            raise ReplayError(
                f"round {ask.number} was asked, but this site expects round {current.number + 1}"
            )
        self._check_receipts(current, ask.receipts)
        self._policy.check_question(
            ask.question, round_number=ask.number, values_so_far=current.values
        )
        bound_to = self._question_digest(current, ask)
        declared = declaration(ask.question, bound_to, len(current.invite.cohort))
        answer = self._respondent.answer(ask.question)
        share = self._keyring(current).aggregation.share(answer, declared)
        current.number, current.declared, current.opened = ask.number, declared, False
        current.values += declared.length
        self._record(current, question_kinds(ask.question), declared.length, share, bound_to)
        receipt = self._profile.identity.sign(RECEIPT_DOMAIN, *_receipt_parts(current, ask.number))
        return "share", Share(digest=bound_to, receipt=receipt, share=share)

    def _open(self, message: bytes) -> tuple[Topic, Body]:
        current = self._session(keyed=True)
        request = decode(self._verified(message, current.session, "open"), Open)
        declared = current.declared
        if declared is None or request.digest != declared.digest:
            raise ReplayError("only the sum of the current round can be opened")
        self._check_receipts(current, request.receipts)
        words = self._keyring(current).aggregation.open(request.combined, declared)
        if not current.opened:
            self._record(current, "opened-sum", declared.length, words, declared.digest)
        current.opened = True
        return "opened", Opened(digest=declared.digest, words=words)

    def _finish(self, message: bytes) -> tuple[Topic, Body]:
        current = self._session(keyed=True)
        finish = decode(self._verified(message, current.session, "finish"), Finish)
        self._check_receipts(current, finish.receipts)
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

    def _session(self, *, keyed: bool) -> _Session:
        if self._current is None or (self._current.keyring is not None) != keyed:
            raise ReplayError("the message is out of step with the session")
        return self._current

    def _keyring(self, current: _Session) -> Keyring:
        if current.keyring is None:
            raise ReplayError("the session has no keys yet")
        return current.keyring

    def _question_digest(self, current: _Session, ask: Ask) -> bytes:
        return question_digest(
            invite_digest=current.handshake.invite_digest,
            transcript=self._keyring(current).transcript,
            number=ask.number,
            ask=ask,
        )

    def _check_receipts(self, current: _Session, receipts: tuple[bytes, ...]) -> None:
        """Every site of the cohort signed the same digest as this one for the current round."""
        if current.declared is None:
            if receipts:
                raise InconsistentQuestionError("receipts came for a round this site never saw")
            return
        cohort = current.invite.cohort
        if len(receipts) != len(cohort):
            raise InconsistentQuestionError("a site's receipt of the last round is missing")
        parts = _receipt_parts(current, current.number)
        for member, receipt in zip(cohort, receipts, strict=True):
            try:
                verify(member.identity, receipt, RECEIPT_DOMAIN, *parts)
            except SignatureError:
                raise InconsistentQuestionError(
                    f"'{member.name}' did not sign the question that this site was asked"
                ) from None

    def _record(
        self, current: _Session, kind: str, values: int, content: bytes, bound_to: bytes
    ) -> None:
        self._ledger.append(
            session=current.session,
            round_number=current.number,
            algorithm=current.invite.algorithm,
            kind=kind,
            values=values,
            content=content,
            protection=current.invite.protection,
            sites=len(current.invite.cohort),
            digest=bound_to or digest(b"setup", current.handshake.invite_digest),
        )


def _receipt_parts(current: _Session, number: int) -> tuple[bytes, ...]:
    declared = current.declared
    bound_to = declared.digest if declared is not None else b""
    return current.session, number.to_bytes(8, "big"), bound_to


def _session_of(message: bytes) -> bytes:
    """The session a message claims, so that even a refusal names it; zeros where unreadable."""
    try:
        return read_envelope(message).session
    except PrivacyError:
        return bytes(SESSION_BYTES)
