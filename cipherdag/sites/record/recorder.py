"""Writes one session's releases into the site's ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cipherdag.protocol.messages import Invite
    from cipherdag.sites.record.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Recorder:
    """A ledger, and what is the same for all releases of one session."""

    ledger: Ledger
    session: bytes
    invite: Invite

    def write(
        self,
        *,
        round_number: int,
        kind: str,
        values: int,
        content: bytes,
        digest: bytes,
        sites: int,
    ) -> None:
        """Record what is about to leave."""
        self.ledger.append(
            session=self.session,
            round_number=round_number,
            algorithm=self.invite.algorithm,
            kind=kind,
            values=values,
            content=content,
            protection=self.invite.protection,
            sites=sites,
            digest=digest,
        )
