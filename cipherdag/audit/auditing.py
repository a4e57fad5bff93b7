"""Ledgers and transcripts read and checked for an auditor, on either side.

Leaks:
    Ledgers and transcripts hold digests and lengths, no answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from cipherdag.errors import LedgerError, OutputError
from cipherdag.pages.files import csv_text
from cipherdag.protocol.durable_files import write_whole
from cipherdag.protocol.journal import TRANSCRIPT_FILE, Received, read_transcript
from cipherdag.protocol.progress import LedgerHead
from cipherdag.results.folder import (
    declared_in,
    read_folder_releases,
    read_report,
    read_rest,
    reported_heads,
    verify_folder,
)
from cipherdag.results.sentences import NOT_KNOWN, Declared, release_history, release_lines
from cipherdag.sites.record.ledger import clock_remark, ledger_lines, read_releases, verify_ledger
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.study.study import SignedStudy
from cipherdag.sites.study.study_files import read_file


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """A ledger that verifies, held against a transcript if there is one."""

    head: LedgerHead
    matched: int | None = None  # records whose content arrived; None without a transcript
    unreceived: tuple[int, ...] = ()  # lines whose content left the site but never arrived
    remark: str = ""  # what is odd and proves nothing, such as a clock that was set back

    @property
    def received(self) -> str:
        """The end of a sentence about the records of a transcript."""
        if self.matched is None:
            return ""
        late = f", {len(self.unreceived)} never arrived" if self.unreceived else ""
        return f"; {self.matched} records arrived as written{late}"


def check_ledger(
    lines: Sequence[str], transcript: Sequence[Received], *, expected: LedgerHead
) -> LedgerCheck:
    """Hold a site's ledger against what the coordinator received in one run.

    The ledger may go on after the run; ``expected`` is where it stood at the end of the run, as the
    site reported. LedgerError where the ledger is broken, is not the one reported, or lacks what
    arrived.
    """
    head = verify_ledger(lines, identity=expected.identity)
    if expected.records > len(lines):
        raise LedgerError("the ledger is shorter than the site reported", site=expected.site)
    at_end = verify_ledger(lines[: expected.records], identity=expected.identity)
    if at_end.hash != expected.hash:
        raise LedgerError("the ledger is not the one that the site reported", site=expected.site)
    replies = [reply for reply in transcript if reply.site == expected.site and reply.content]
    arrived = {(reply.session, reply.content) for reply in replies}
    sessions = {reply.session for reply in transcript}
    written = read_releases(lines)
    releases = [release for release in written if release.session in sessions]
    recorded = {(release.session, release.content) for release in releases}
    if not arrived <= recorded:
        raise LedgerError(
            f"{len(arrived - recorded)} answers arrived that the ledger does not record",
            site=expected.site,
        )
    missing = [r.line for r in releases if (r.session, r.content) not in arrived]
    matched = len(releases) - len(missing)
    return LedgerCheck(head, matched, tuple(missing), clock_remark(written))


def verify(folder: Path, ledgers: Sequence[Path] = ()) -> list[LedgerCheck]:
    """Check every ledger of a site's folder, a result folder, or the folder of a coordinator's run.

    ``ledgers`` are files that sites exported, to hold against the run's transcript. LedgerError
    where a ledger is broken, or contradicts what the coordinator received; OutputError where the
    folder holds nothing to check.
    """
    if (folder / "site.toml").exists():
        lines, head = site_ledger(SiteFolder(folder))
        return [LedgerCheck(head, remark=clock_remark(read_releases(lines)))]
    if not ledgers:
        heads, releases = verify_folder(folder), read_folder_releases(folder)
        return [
            LedgerCheck(head, remark=clock_remark(releases[site])) for site, head in heads.items()
        ]
    transcript = read_transcript(folder / TRANSCRIPT_FILE)
    heads = reported_heads(read_report(folder))
    checks = []
    for path in ledgers:
        lines = _lines(path)
        site = verify_ledger(lines).site
        if site not in heads:
            raise LedgerError(
                f"{path} is of {site!r:.80}, which is not in the run's result",
                remedy="Name the folder of the run that this ledger is of.",
            )
        checks.append(check_ledger(lines, transcript, expected=heads[site]))
    return checks


def site_ledger(site: SiteFolder) -> tuple[list[str], LedgerHead]:
    """A site's own ledger, verified against the identity that the study pins.

    LedgerError where it is broken or signed by another key, SiteNotReadyError where the folder is
    no site's.
    """
    name = site.settings().name
    lines = _lines(site.ledger_path) if site.ledger_path.exists() else []
    if site.study_path.exists():
        identity = read_file(site.study_path, SignedStudy).study.pinned[name]
    else:
        identity = site.identity().public
    head = verify_ledger(lines, identity=identity.hex())
    return lines, head if head.records else replace(head, site=name)


def what_left(folder: Path) -> list[str]:
    """What left a site by its ledger, or each site by those of a result folder, in sentences.

    LedgerError where a site's ledger is broken; OutputError where the folder holds no ledger, or is
    of a site that is not activated.
    """
    site = SiteFolder(folder)
    if not site.settings_path.exists():
        return release_lines(read_folder_releases(folder), declared_in(folder))
    if not site.study_path.exists():
        raise OutputError(
            f"{folder} is not activated: nothing can have left it",
            remedy="Name the folder of a site that was activated, or of a result.",
        )
    return release_history(read_releases(site_ledger(site)[0]), site.declared)


def export(folder: Path, out: Path, kind: str, *, site: str = "") -> int:
    """Write a site's ledger, or a run's transcript, for an auditor; return the number of records.

    The folder is a site's, the saved result of a run in one process, or that of a coordinator's
    run; a file is a site's exported ledger. ``jsonl`` keeps chain and signatures; else it is
    ``csv`` or, of a site's ledger, a page to read, ``html``. Of a saved result ``site`` says whose
    ledger; the ``csv`` has all its sites' if empty. LedgerError where the ledger is broken;
    OutputError where there is nothing to export, several sites' ledgers would be one file, or the
    file cannot be written.
    """
    if any((folder / "releases").glob("*.jsonl")):
        count, text = _result_text(folder, kind, site)
    elif site:
        raise OutputError(
            f"{folder} is no saved result, of which --site could choose one site's ledger",
            remedy="Leave --site out: here is one ledger at most.",
        )
    elif folder.is_file() or (folder / "site.toml").exists():
        count, text = _ledger_text(folder, kind)
    elif (folder / TRANSCRIPT_FILE).exists():
        count, text = _transcript_text(folder / TRANSCRIPT_FILE, kind)
    else:
        raise OutputError(
            f"{folder} is no site's ledger or folder, no saved result and no run's folder",
            remedy="Name a site's folder, or a ledger that a site exported.",
        )
    write_whole(out, text)
    return count


def _ledger_text(source: Path, kind: str) -> tuple[int, str]:
    """Number of records and text of a site's ledger, verified."""
    if source.is_dir():
        lines, head = site_ledger(SiteFolder(source))
        return _exported(lines, head, kind, True, SiteFolder(source).declared)
    lines = _lines(source)
    return _exported(lines, verify_ledger(lines), kind, False, NOT_KNOWN)


def _exported(
    lines: Sequence[str], head: LedgerHead, kind: str, pinned: bool, said: Declared
) -> tuple[int, str]:
    records = read_releases(lines)
    if kind == "html":
        from cipherdag.audit.ledger_page import ledger_page

        now = datetime.now(UTC)
        return len(records), ledger_page(records, head, said, pinned=pinned, written=now)
    return len(records), _csv(records) if kind == "csv" else _joined(lines)


def _result_text(folder: Path, kind: str, site: str) -> tuple[int, str]:
    """Number of records and text of one ledger of a saved result, or the table of all; verified."""
    heads, ledgers = verify_folder(folder), read_rest(folder).ledgers
    sites = ", ".join(heads)
    if site and site not in heads:
        raise OutputError(f"{folder} holds no ledger of '{site}'", remedy=f"It holds {sites}.")
    if kind == "csv" and not site:
        records = [record for lines in ledgers.values() for record in read_releases(lines)]
        return len(records), _csv(records)
    if not site and len(heads) > 1:
        raise OutputError(
            f"{folder} holds ledgers of {len(heads)} sites, and a file as {kind} holds one",
            remedy=f"Choose with --site: {sites}; or take --format csv, a table of all.",
        )
    site = site or next(iter(heads))
    return _exported(ledgers[site], heads[site], kind, False, lambda _: declared_in(folder))


def _transcript_text(path: Path, kind: str) -> tuple[int, str]:
    if kind == "html":
        raise OutputError(
            "a page is made from a site's ledger, not from what the coordinator received",
            remedy="Name a site's folder, or a ledger that a site exported.",
        )
    records = read_transcript(path)
    lines = path.read_text("utf-8").splitlines()
    return len(records), _csv(records) if kind == "csv" else _joined(lines)


def _joined(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)


def _csv(records: Sequence[msgspec.Struct]) -> str:
    header = [record.__struct_fields__ for record in records[:1]]
    return csv_text([*header, *map(msgspec.structs.astuple, records)])


def _lines(path: Path) -> list[str]:
    try:
        return ledger_lines(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(
            f"{path} cannot be read as text",
            remedy="Name a site's folder, or a ledger that a site exported.",
        ) from error
