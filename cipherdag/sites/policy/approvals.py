"""Plans that wait until a person of the site has decided on them.

A plan that asks is written down; a person reads it (`plan_account`) and approves or denies it. The
decision is signed over the plan's digest: any other plan, however alike, waits again. What nobody
decided on, or was approved and not begun, expires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec

from cipherdag.errors import (
    CipherdagError,
    ParameterError,
    PolicyRefusedError,
    SiteNotReadyError,
    writing,
)
from cipherdag.pages.files import from_json
from cipherdag.privacy.keys.identity import SigningIdentity, verify
from cipherdag.protocol.durable_files import write_whole
from cipherdag.protocol.messages import AWAITS, DENIED, TOO_MANY_WAIT
from cipherdag.protocol.plan import Plan, check_session_digits

EXPIRES = timedelta(days=14)
MAX_STORED_RUNS = 200
MAX_WAITING = 50
ASKED_FILE = "asked.json"
_DOMAIN = b"cipherdag decision"

Decision = Literal["waits", "approved", "denied"]


class AskedRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan that asked, and what was decided.

    Attributes:
        asked: When it was seen first, in UTC.
        consider: What a person should consider before approving it.
        note: Why it was denied; it stays at the site.
        signature: The site's own, over the plan's digest and the decision.
    """

    plan: Plan
    asked: str
    consider: str = ""
    decision: Decision = "waits"
    note: str = ""
    signature: bytes = b""

    @property
    def session(self) -> str:
        """The session that would carry it out, in hexadecimal."""
        return self.plan.session.hex()

    def signed_by(self, identity: bytes) -> bool:
        """True if a person decided, under a valid signature of this public key."""
        try:
            verify(identity, self.signature, _DOMAIN, self.plan.digest, self.decision.encode())
        except CipherdagError:
            return False
        return self.decision != "waits"


def how_to_decide(session: str) -> str:
    """One sentence on how a person of the site decides on a waiting plan."""
    return f"Read it with `cipherdag site status`, then {_commands(session)}."


def _commands(session: str) -> str:
    prefix = session[:8]
    return f'`cipherdag site approve {prefix}`, or `cipherdag site deny {prefix} --why "..."`'


@dataclass(frozen=True, slots=True)
class Approvals:
    """The plans that asked, a folder for each, and the site's key, which signs decisions."""

    folder: Path
    identity: bytes
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def check(self, plan: Plan, *, consider: Sequence[str] = ()) -> None:
        """Let an approved plan pass; write down one that is new, and what to consider of it.

        PolicyRefusedError where nobody approved this plan, or somebody denied it; or so many wait
        that it is not written down.
        """
        run = self._find(plan)
        if run is not None and not self.expired(run) and run.signed_by(self.identity):
            if run.decision == "denied":
                raise PolicyRefusedError(DENIED)
            if all(each in run.consider for each in consider):  # else they read less than this
                return
        if run is None or self.expired(run) or run.decision != "waits":
            self._make_room()
            asked = plan, self.clock().isoformat(timespec="seconds")
            self._write(AskedRun(*asked, "; ".join(consider)))
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
        self, session: str, decision: Decision, identity: SigningIdentity, *, note: str = ""
    ) -> AskedRun:
        """Approve or deny a plan under the site's signature; ParameterError if it has expired."""
        run = self.find(session)
        if self.expired(run):
            raise ParameterError(
                f"run {run.session[:8]} asked on {run.asked[:10]} and has expired",
                remedy="Ask the coordinator to start it again.",
            )
        signature = identity.sign(_DOMAIN, run.plan.digest, decision.encode())
        decided = msgspec.structs.replace(run, decision=decision, note=note, signature=signature)
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

    def deadline(self, run: AskedRun) -> str:
        """Until when a plan that waits can be decided on, and how, in one sentence."""
        day = (datetime.fromisoformat(run.asked) + EXPIRES).date()
        waiting = "The coordinator waits for an hour, if it chose no other time, and may ask again."
        return f"Decide before {day}: {_commands(run.session)}. {waiting}"

    def waits(self, run: AskedRun) -> bool:
        """True if a person may still decide on the plan, and has not."""
        return run.decision == "waits" and not self.expired(run)

    def _find(self, plan: Plan) -> AskedRun | None:
        """The decision on this very plan; a file of another one does not count."""
        path = self.folder / plan.session.hex() / ASKED_FILE
        run = self._read(path) if path.exists() else None
        return run if run is not None and run.plan.digest == plan.digest else None

    def _read(self, path: Path) -> AskedRun:
        try:
            return from_json(path.read_bytes(), AskedRun)
        except (OSError, ValueError) as error:
            raise SiteNotReadyError(f"{path} is not a run that asked") from error

    def _write(self, run: AskedRun) -> None:
        with writing(self.folder / run.session):
            (self.folder / run.session).mkdir(mode=0o700, parents=True, exist_ok=True)
        text = msgspec.json.format(msgspec.json.encode(run), indent=2).decode() + "\n"
        write_whole(self.folder / run.session / ASKED_FILE, text)

    def _make_room(self) -> None:
        """Forget the oldest that have expired: one that has not may be what a person has read."""
        runs = self.runs()
        if sum(map(self.waits, runs)) >= MAX_WAITING:
            raise PolicyRefusedError(TOO_MANY_WAIT)
        for run in [run for run in runs if self.expired(run)][
            : max(len(runs) - MAX_STORED_RUNS + 1, 0)
        ]:
            with writing(self.folder / run.session):
                (self.folder / run.session / ASKED_FILE).unlink(missing_ok=True)
