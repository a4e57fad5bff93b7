"""What a site remembers of other sites: their ledgers, and what they committed to.

A folder that was restored from an older backup does not say what it lacks: the runs since, and with
them the counts of ``max_runs`` and the sums that the rule on differences compares. The other sites
can say it. In the set-up of each run every site shows the last record of its ledger, and tells some
others which record of theirs it saw last, with their own signature. A site without a record that it
signed was restored, or a copy of its folder took part. Nor does a site commit to a second number of
a cohort whose roles would please it more.

Leaks:
    Every site of a run sees the hash of the last record of each other site's ledger, and its
    signature; of the record itself, and of how many there are, it sees nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from cipherdag.errors import (
    KeyAgreementError,
    LostRecordsError,
    MalformedMessageError,
    SignatureError,
    SiteNotReadyError,
)
from cipherdag.pages.files import from_json
from cipherdag.privacy.keys.identity import verify
from cipherdag.privacy.wire import decode, encode
from cipherdag.protocol.durable_files import append_entries, read_entries, write_whole
from cipherdag.protocol.plan import Member, Plan
from cipherdag.protocol.set_up_messages import Memory, Offer, Remembered, ShownRecord
from cipherdag.sites.record.ledger import DOMAIN, Ledger

COMMITTED_FILE: Final = "commitments.jsonl"
WITNESSES: Final = 8
"""How many of the sites after it, around the cohort, a site reminds of their last records."""
LOST = (
    "this site's ledger lacks a record that it signed in an earlier run: its folder was restored "
    "from an older backup, or a copy of it took part elsewhere"
)


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record that a site showed: its hash and the site's signature, in hexadecimal."""

    hash: str
    signature: str


class _Committed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the sites of a cohort showed in a set-up, in its order and in hexadecimal.

    ``commitments`` are to a number each, from which roles follow, and ``rows`` digests of their
    rows; ``changed`` names other sites whose rows changed since a person of this site decided.
    """

    cohort: str
    commitments: tuple[str, ...]
    rows: tuple[str, ...]
    changed: tuple[str, ...] = ()


@dataclass(slots=True)
class Witness:
    """One site's memory, at ``path``, of the others' ledgers and of what they showed of its own."""

    path: Path
    site: str
    identity: bytes
    ledger: Ledger = field(repr=False)

    def last_record(self) -> bytes:
        """The last record of this site's ledger, as others are shown it; empty if there is none."""
        signed = self.ledger.last
        if signed is None:
            return b""
        return encode(ShownRecord(bytes.fromhex(signed.hash), bytes.fromhex(signed.signature)))

    def memory(self, cohort: Sequence[Member], index: int) -> bytes:
        """What this site remembers of some sites after it in the cohort; empty if nothing."""
        lines, n_sites = self._read(), len(cohort)
        after = [(index + step) % n_sites for step in range(1, min(WITNESSES, n_sites - 1) + 1)]
        records = tuple(
            Remembered(other, bytes.fromhex(line.hash), bytes.fromhex(line.signature))
            for other in after
            if (line := lines.get(cohort[other].name)) is not None
        )
        return encode(Memory(records)) if records else b""

    def check(self, memories: Sequence[bytes], index: int) -> None:
        """Hold what others remember of this site against its ledger.

        A record that this site did not sign is passed over: nobody else can make it lack one.
        LostRecordsError where it signed a record that it does not have, MalformedMessageError where
        a memory does not decode.
        """
        for memory in filter(None, memories):
            for seen in decode(memory, Memory).records:
                if seen.site == index and _is_signed(self.identity, seen.hash, seen.signature):
                    self._hold_against(_Line(seen.hash.hex(), seen.signature.hex()))

    def check_complete(self) -> None:
        """Raise LostRecordsError where others showed a record before that the ledger lacks."""
        line = self._read().get(self.site)
        if line is not None and not self.ledger.holds(line.hash):
            raise LostRecordsError(LOST)

    def remember(self, cohort: Sequence[Member], shown: Sequence[bytes]) -> None:
        """Keep the last records that sites show; KeyAgreementError for one that is not signed."""
        lines = dict(self._read())
        for member, record in zip(cohort, shown, strict=True):
            if not record or member.name == self.site:
                continue
            last = decode(record, ShownRecord)
            if not _is_signed(member.identity, last.hash, last.signature):
                raise KeyAgreementError(
                    "it shows a record of its ledger that it did not sign", site=member.name
                )
            lines[member.name] = _Line(last.hash.hex(), last.signature.hex())
        self._write(lines)

    def hold(self, plan: Plan, offers: Sequence[Offer]) -> None:
        """Keep what the sites of a cohort commit to; later set-ups of it need the same.

        Other rows than in an earlier set-up are noted: see `changed`. KeyAgreementError where a
        site commits to another number than before, SiteNotReadyError where these cannot be read.
        """
        last = self._committed(plan)
        each = [(offer.commitment.hex(), offer.rows.hex()) for offer in offers]
        now = _Committed(plan.cohort_digest.hex(), *map(tuple, zip(*each, strict=True)))
        if last is not None:
            for name, *pair in zip(plan.names, last.commitments, now.commitments, strict=True):
                if pair[0] != pair[1]:
                    raise KeyAgreementError(
                        f"'{name}' commits to another number than in an earlier set-up of these "
                        "sites",
                        remedy="Find out why: other roles would follow. A site that begins anew "
                        "takes part under a new key.",
                    )
            rows = zip(plan.names, last.rows, now.rows, strict=True)
            others = {name for name, *pair in rows if pair[0] != pair[1] and name != self.site}
            now = msgspec.structs.replace(now, changed=tuple(sorted({*last.changed, *others})))
        if now != last:
            append_entries(self.path.with_name(COMMITTED_FILE), now)

    def changed(self, plan: Plan) -> tuple[str, ...]:
        """Other sites of a cohort whose rows changed since a person of this site decided."""
        last = self._committed(plan)
        return () if last is None else last.changed

    def accept(self, plan: Plan) -> None:
        """A person of the site approved a run, told whose rows changed."""
        last = self._committed(plan)
        if last is not None and last.changed:
            decided = msgspec.structs.replace(last, changed=())
            append_entries(self.path.with_name(COMMITTED_FILE), decided)

    def _committed(self, plan: Plan) -> _Committed | None:
        path, cohort = self.path.with_name(COMMITTED_FILE), plan.cohort_digest.hex()
        unread = SiteNotReadyError(
            f"{path.name} cannot be read",
            remedy="Restore it: it holds what the sites committed to, from which roles follow.",
        )
        lines = [line for line in read_entries(path, _Committed, unread) if line.cohort == cohort]
        return lines[-1] if lines else None

    def _hold_against(self, line: _Line) -> None:
        if not self.ledger.holds(line.hash):
            self._write({**self._read(), self.site: line})
            raise LostRecordsError(LOST)

    def _read(self) -> Mapping[str, _Line]:
        if not self.path.exists():
            return {}
        try:
            return from_json(self.path.read_bytes(), dict[str, _Line])
        except (OSError, ValueError) as error:
            raise SiteNotReadyError(
                f"{self.path.name} cannot be read",
                remedy="Delete it; what other sites showed of their ledgers is then forgotten.",
            ) from error

    def _write(self, lines: Mapping[str, _Line]) -> None:
        write_whole(self.path, msgspec.json.encode(lines, order="sorted").decode("utf-8"))


def _is_signed(identity: bytes, record: bytes, signature: bytes) -> bool:
    try:
        verify(identity, signature, DOMAIN, record)
    except (SignatureError, MalformedMessageError):
        return False
    return True
