"""Runs that wait until a person of the site has agreed to them.

A run that asks is written down with what it would do; the person approves it by its session. The
approval holds for the very invite that was seen: the same session with another algorithm, cohort
or protection waits again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from cipherdag.errors import ParameterError, PolicyRefusedError, SiteNotReadyError
from cipherdag.protocol.messages import digest, encode
from cipherdag.sites.private_files import write_private

if TYPE_CHECKING:
    from pathlib import Path

    from cipherdag.protocol.messages import Invite

AWAITS = "the run waits until a person of this site approves it"
MAX_KEPT = 200
_SESSION = re.compile(r"[0-9a-f]{8,32}")


class AskedRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run that asked: its session, what it would do, whether it may, and what to consider."""

    session: str
    invite: str
    asked: str
    algorithm: str
    protection: str
    sites: tuple[str, ...]
    approved: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Approvals:
    """The runs that asked, one file each."""

    folder: Path

    def check(self, session: bytes, invite: Invite, *, why: str = "") -> None:
        """Let an approved run pass; write down any other.

        Args:
            session: The session.
            invite: What it would do.
            why: What a person should consider before approving it.

        Raises:
            PolicyRefusedError: Nobody has approved this very invite.
        """
        seen = digest(b"asked run", encode(invite)).hex()
        run = self._find(session.hex())
        if run is not None and run.approved and run.invite == seen:
            return
        if run is None or run.invite != seen:
            self._forget_oldest()
            self._write(
                AskedRun(
                    session=session.hex(),
                    invite=seen,
                    asked=datetime.now(UTC).isoformat(timespec="seconds"),
                    algorithm=invite.algorithm,
                    protection=invite.protection,
                    sites=tuple(member.name for member in invite.cohort),
                    why=why,
                )
            )
        raise PolicyRefusedError(
            AWAITS, remedy=f"At the site: cipherdag site approve {session.hex()[:8]}"
        )

    def find(self, session: str) -> AskedRun:
        """The run whose session starts with these hexadecimal digits.

        Raises:
            ParameterError: No run, or more than one, starts like this.
        """
        if not _SESSION.fullmatch(session):
            raise ParameterError("a session is named by 8 to 32 hexadecimal digits")
        matching = [run for run in self.runs() if run.session.startswith(session)]
        if len(matching) != 1:
            raise ParameterError(
                f"{len(matching)} runs start with {session}",
                remedy="See `cipherdag site status`, which lists the runs that asked.",
            )
        return matching[0]

    def approve(self, session: str) -> AskedRun:
        """Approve a run; see `find`."""
        approved = msgspec.structs.replace(self.find(session), approved=True)
        self._write(approved)
        return approved

    def runs(self) -> list[AskedRun]:
        """All runs that asked, oldest first.

        Raises:
            SiteNotReadyError: A file cannot be read.
        """
        return sorted(
            (self._read(path) for path in self.folder.glob("*.json")), key=lambda run: run.asked
        )

    def _find(self, session: str) -> AskedRun | None:
        path = self.folder / f"{session}.json"
        return self._read(path) if path.exists() else None

    def _read(self, path: Path) -> AskedRun:
        try:
            return msgspec.json.decode(path.read_bytes(), type=AskedRun)
        except (OSError, msgspec.DecodeError, ValueError) as error:
            raise SiteNotReadyError(f"{path} is not a run that asked") from error

    def _write(self, run: AskedRun) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        text = msgspec.json.format(msgspec.json.encode(run), indent=2).decode() + "\n"
        write_private(self.folder / f"{run.session}.json", text)

    def _forget_oldest(self) -> None:
        for run in self.runs()[: -(MAX_KEPT - 1)]:
            (self.folder / f"{run.session}.json").unlink(missing_ok=True)
