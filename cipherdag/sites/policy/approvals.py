"""Plans that wait until a person of the site has decided on them.

A plan that asks is written down; a person reads it (`plan_account`) and approves or denies it. The
decision is signed over the plan's digest, with the name and role of who decided: any other plan,
however alike, waits again. What nobody decided on, or was approved and not begun, expires.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from cipherdag.errors import (
    CipherdagError,
    ParameterError,
    PolicyRefusedError,
    SiteNotReadyError,
    writing,
)
from cipherdag.pages.files import from_json
from cipherdag.pages.language import ENGLISH, Language
from cipherdag.privacy.keys.identity import SigningIdentity, verify
from cipherdag.protocol.durable_files import write_whole
from cipherdag.protocol.messages import AWAITS, DENIED, TOO_MANY_WAIT
from cipherdag.protocol.plan import Plan, check_session_digits

EXPIRES = timedelta(days=14)
MAX_STORED_RUNS = 200
MAX_WAITING = 50
MAX_WAITING_BYTES = 8 * 1024 * 1024
MAX_LETTERS = 200
ASKED_FILE = "asked.json"
_DOMAIN = b"cipherdag decision"

Decision = Literal["waits", "approved", "denied"]


class Person(NamedTuple):
    """Who decides, as that person says: the site signs the words and cannot check them."""

    name: str
    role: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.role})" if self.role else self.name


class PersonalDecision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one person decided on a plan."""

    decision: Literal["approved", "denied"]  # whether the person approved or denied it
    person: Person  # who it was, and in which role
    when: str  # in UTC
    note: str = ""  # why it was denied; it stays at the site
    signature: bytes = b""  # the site's own, over the plan's digest, decision, person and time
    # in which the site said what was decided on; nothing that is signed follows it
    language: str = ""

    def in_words(self, say: Language = ENGLISH) -> str:
        """Who decided what, and when."""
        about = {"person": self.person, "day": self.when[:10]}
        if self.decision == "denied":
            return say("Denied by {person} on {day}.", **about)
        return say("Approved by {person} on {day}.", **about)

    def signed(self, plan: Plan) -> tuple[bytes, ...]:
        """What the signature is over."""
        said = (self.decision, *self.person, self.when)
        return (_DOMAIN, plan.digest, *(each.encode() for each in said))


class AskedRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan that asked, and what was decided."""

    plan: Plan
    asked: str  # when it was seen first, in UTC
    consider: str = ""  # what a person should consider before approving it
    approvers: int = 1  # how many persons must approve it
    decisions: tuple[PersonalDecision, ...] = ()  # the last decision of each person, in their order

    @property
    def decision(self) -> Decision:
        """Denied if anybody denied it, and approved once as many persons as it takes have."""
        if any(each.decision == "denied" for each in self.decisions):
            return "denied"
        return "approved" if len(self.decisions) >= max(self.approvers, 1) else "waits"

    @property
    def session(self) -> str:
        """The session that would carry it out, in hexadecimal."""
        return self.plan.session.hex()

    def considered(self, say: Language = ENGLISH) -> str:
        """What a person should consider, in a language; what is written down is English."""
        return say("; ").join(map(say.of, self.consider.split("; ")))

    def signed_by(self, identity: bytes) -> bool:
        """True if it was decided, and this public key signed what each person decided."""
        try:
            for each in self.decisions:
                verify(identity, each.signature, *each.signed(self.plan))
        except CipherdagError:
            return False
        return self.decision != "waits"


def how_to_decide(session: str) -> str:
    """One sentence on how a person of the site decides on a waiting plan."""
    return f"Read it with `cipherdag site status`, then {_commands(session, ENGLISH)}."


def _commands(session: str, say: Language) -> str:
    return say(
        '`cipherdag site approve {run}`, or `cipherdag site deny {run} --why "..."`',
        run=session[:8],
    )


@dataclass(frozen=True, slots=True)
class Approvals:
    """The plans that asked, a folder for each; the site's key, which signs; how many approve."""

    folder: Path
    identity: bytes
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    approvers: int = 1

    def check(self, plan: Plan, *, consider: Sequence[str] = ()) -> None:
        """Let an approved plan pass; write down one that is new, and what to consider of it.

        PolicyRefusedError where nobody approved this plan, or somebody denied it; or so many wait
        that it is not written down.
        """
        run = self._find(plan)
        decided = run is not None and not self.expired(run) and run.signed_by(self.identity)
        if run is not None and decided and run.approvers >= self.approvers:
            if run.decision == "denied":
                raise PolicyRefusedError(
                    DENIED, remedy="Ask the people of the site why, then plan what they allow."
                )
            if all(each in run.consider for each in consider):  # else they read less than this
                return
        if run is None or self.expired(run) or run.decision != "waits":
            asked = AskedRun(plan, self._now(), "; ".join(consider), self.approvers)
            self._make_room(len(_written(asked)))
            self._write(asked)
        raise PolicyRefusedError(AWAITS, remedy=how_to_decide(plan.session.hex()))

    def find(self, session: str) -> AskedRun:
        """The plan whose session starts with these digits; ParameterError if it is not one plan."""
        check_session_digits(session)
        matching = [run for run in self.runs() if run.session.startswith(session)]
        if len(matching) != 1:
            raise ParameterError(
                f"{len(matching) or 'no'} runs that asked start with {session}",
                remedy="See `cipherdag site status`, which lists them; type more digits of one.",
            )
        return matching[0]

    def decide(
        self,
        session: str,
        decision: Literal["approved", "denied"],
        identity: SigningIdentity,
        person: Person,
        *,
        note: str = "",
        language: str = "",
    ) -> AskedRun:
        """Write down, signed, what a person decides; the same person's last decision counts.

        ParameterError where the plan has expired, or no name is given, or one that is too long.
        """
        person = Person(*(" ".join(word.split()) for word in person))
        if not person.name or not all(w.isprintable() and len(w) <= MAX_LETTERS for w in person):
            raise ParameterError(
                f"a decision needs a name and a role of up to {MAX_LETTERS} printable letters",
                remedy="Say who decides, as in --name 'A. Weber' --role 'head of data protection'.",
            )
        run = self.find(session)
        if self.expired(run):
            raise ParameterError(
                f"run {run.session[:8]} asked on {run.asked[:10]} and has expired",
                remedy="Ask the coordinator to start it again.",
            )
        new = PersonalDecision(decision, person, self._now(), note, language=language)
        new = msgspec.structs.replace(new, signature=identity.sign(*new.signed(run.plan)))
        others = (e for e in run.decisions if e.person.name.casefold() != person.name.casefold())
        decided = msgspec.structs.replace(run, decisions=(*others, new))
        self._write(decided)
        return decided

    def runs(self) -> list[AskedRun]:
        """All plans that asked, oldest first; SiteNotReadyError where a file cannot be read."""
        return sorted(
            (self._read(path) for path in self.folder.glob(f"*/{ASKED_FILE}")),
            key=lambda run: run.asked,
        )

    def expired(self, run: AskedRun) -> bool:
        """True if the plan asked too long ago to be decided on, or to be begun."""
        return self.clock() - datetime.fromisoformat(run.asked) > EXPIRES

    def deadline(self, run: AskedRun, say: Language = ENGLISH) -> str:
        """Until when a plan that waits can be decided on, and how, in one sentence."""
        return say(
            "Decide before {day}: {commands}. The coordinator waits for an hour, if it chose no "
            "other time, and may ask again.",
            day=(datetime.fromisoformat(run.asked) + EXPIRES).date(),
            commands=_commands(run.session, say),
        )

    def waits(self, run: AskedRun) -> bool:
        """True if a person may still decide on the plan, and has not."""
        return run.decision == "waits" and not self.expired(run)

    def _now(self) -> str:
        return self.clock().isoformat(timespec="seconds")

    def _find(self, plan: Plan) -> AskedRun | None:
        """The decision on this very plan; a file of another one does not count."""
        path = self.folder / plan.session.hex() / ASKED_FILE
        run = self._read(path) if path.exists() else None
        return run if run is not None and run.plan.digest == plan.digest else None

    def _read(self, path: Path) -> AskedRun:
        try:
            return from_json(path.read_bytes(), AskedRun)
        except (OSError, ValueError) as error:
            raise SiteNotReadyError(
                f"{path} is not a run that asked", remedy="Remove it. The coordinator asks again."
            ) from error

    def _write(self, run: AskedRun) -> None:
        with writing(self.folder / run.session):
            (self.folder / run.session).mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self.folder / run.session / ASKED_FILE, _written(run))

    def _make_room(self, length: int) -> None:
        """Forget the oldest that expired and nobody decided on: others may have been read."""
        runs = self.runs()
        sizes = [len(_written(run)) for run in runs if self.waits(run)]
        if len(sizes) >= MAX_WAITING or sum(sizes) + length > MAX_WAITING_BYTES:
            raise PolicyRefusedError(TOO_MANY_WAIT)
        for run in [run for run in runs if self.expired(run) and not run.decisions][
            : max(len(runs) - MAX_STORED_RUNS + 1, 0)
        ]:
            with writing(self.folder / run.session):
                (self.folder / run.session / ASKED_FILE).unlink(missing_ok=True)


def _written(run: AskedRun) -> bytes:
    """What the file of a plan that asked holds."""
    return msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n"
