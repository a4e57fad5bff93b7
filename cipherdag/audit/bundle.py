"""A result with its evidence as one file that a stranger can check: made, and verified.

Leaks:
    As `cipherdag.audit.contents`. Verifying sends nothing and unpacks nothing to disk.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote
from uuid import uuid4

import msgspec

from cipherdag.audit.auditing import LedgerCheck, check_ledger
from cipherdag.audit.bag import MAX_BYTES, NO_BUNDLE, SIGNATURE_FILE, Bag, packed, read_bag
from cipherdag.audit.contents import (
    COORDINATOR,
    ENVIRONMENT,
    PLAN,
    REPORT,
    SCHEMA,
    SITES,
    STUDY,
    TRANSCRIPT,
    Contents,
    contents_of,
)
from cipherdag.audit.crate import METADATA, PROFILE, add_metadata
from cipherdag.errors import BundleError, CipherdagError, LedgerError, OutputError
from cipherdag.pages.files import from_json, printable
from cipherdag.protocol.durable_files import write_whole
from cipherdag.protocol.journal import Received
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.progress import LedgerHead
from cipherdag.results.folder import reported_heads, verify_ledgers
from cipherdag.results.run import finding_of
from cipherdag.sites.policy.approvals import AskedRun
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import clock_remark, ledger_lines, read_releases, verify_ledger
from cipherdag.sites.study.study import SignedStudy, Study, check_study, coordinator_fingerprint

MOST_SITES = 1_000  # bundles of sites that one bundle may hold
MOST_OF_A_TEXT = 2**24
"""Bytes of a file in JSON or TOML, which takes many times as much memory once it is read."""
MOST_VARIABLES = 5_000
"""The most variables of a result whose graph is compared: in memory it takes their square."""
_UNREADABLE = (
    AttributeError, LookupError, MemoryError, OverflowError, RecursionError, TypeError, ValueError,
)  # fmt: skip
Decoded = TypeVar("Decoded", bound=msgspec.Struct)


@dataclass(frozen=True, kw_only=True, slots=True)
class BundleCheck:
    """What a bundle shows; every file has its digest."""

    files: int
    plan: Plan | None
    approved: tuple[str, ...]  # sites whose approval of this plan bears the signature of their key
    ledgers: tuple[LedgerCheck, ...]
    signer: str  # whose key signed all files, by the plan and the study; empty where nobody did
    # the fingerprint of the coordinator's key and root, which a person compares by telephone; empty
    # without a study
    coordinator: str


@dataclass(frozen=True, slots=True)
class _Record:
    """What a coordinator has of the ledgers; empty in the bundle of a site."""

    heads: Mapping[str, LedgerHead]
    transcript: tuple[Received, ...]


def bundle(source: Path, out: Path, *, run: str = "", bundles: Sequence[Path] = ()) -> Contents:
    """Write a result and the evidence on it as a Five Safes RO-Crate, a zip file that verifies.

    The source is a saved result of a run in one process, a run's folder under ``runs/`` of the
    coordinator, or a site's folder. Of a site ``run`` has the first digits of the run's session, or
    is empty for the one that began last; of a coordinator's run ``bundles`` are those that sites
    made of their folders.

    Raises:
        OutputError: There is nothing to bundle, ``out`` cannot be written, or the
            package ``rocrate`` is not installed.
        ParameterError: ``run`` or ``bundles`` are given for another kind of folder.
        BundleError: A site's bundle does not verify, or is of another plan.
        LedgerError: A ledger is broken, or contradicts what the coordinator received.
    """
    contents = contents_of(source, run=run, bundles=bundles)
    identifier, written = uuid4(), datetime.now(UTC)
    add_metadata(contents, identifier=identifier, written=written)
    content = packed(
        contents.files, identifier=identifier, written=written, identity=contents.identity
    )
    _verified(read_bag(content, called=str(out)))
    write_whole(out, content)
    return contents


def verify_bundle(path: Path) -> BundleCheck:
    """Check all that a bundle can prove, without any other file.

    Whose keys they are it cannot show: people compare those. BundleError where a file is missing,
    additional or changed, or two files contradict each other; the file is named; LedgerError where
    a ledger is broken, or contradicts the result or what the coordinator received.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise BundleError(
                f"{path} has {size} bytes, and a bundle {MAX_BYTES} at most", remedy=NO_BUNDLE
            )
        content = path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}", remedy=NO_BUNDLE) from error
    return _verified(read_bag(content, called=str(path)))


def _verified(bag: Bag) -> BundleCheck:
    """Check what a bundle's files say together; their digests hold."""
    _check_metadata(bag.payload)
    plan = _plan(bag.payload)
    study = _study(bag.payload, plan)
    signer = _signer(bag, plan, study)
    coordinator = "" if study is None else coordinator_fingerprint(study.coordinator, study.root)
    approved, record = [*_approvals(bag.payload, plan)], _record(bag.payload)
    ledgers = [*_ledgers(bag.payload, plan, record)]
    _check_tables(bag.payload)
    for nested in _sites_bags(bag, plan):
        check = _verified(nested)
        if check.coordinator not in {"", coordinator}:
            raise BundleError(f"the bundle of a site has another coordinator in {STUDY}")
        approved += check.approved
        ledgers += _ledgers(nested.payload, plan, record)
    return BundleCheck(
        files=len(bag.payload),
        plan=plan,
        approved=tuple(approved),
        ledgers=tuple(ledgers),
        signer=signer,
        coordinator=coordinator,
    )


def _sites_bags(bag: Bag, plan: Plan | None) -> Iterator[Bag]:
    """The bundles of sites within a coordinator's, one after the other, within one limit."""
    names = [*_of_sites(bag.payload, SITES)]
    most = min(MOST_SITES, 0 if plan is None else len(plan.cohort))
    if len(names) > most:
        raise BundleError(f"the bundle holds {len(names)} bundles of sites, of {most} at most")
    left = MAX_BYTES - bag.size
    for name, site in names:
        nested = _site_s_bag(bag, name, site, plan, left)
        left -= nested.size
        yield nested


def _site_s_bag(bag: Bag, name: str, site: str, plan: Plan | None, most: int) -> Bag:
    """The bundle of a site within a coordinator's: of the same plan, and signed by that site."""
    nested = read_bag(bag.payload[name], called=name, most=most)
    keys = {} if plan is None else {member.name: member.identity for member in plan.cohort}
    if plan is None or nested.identity is None or nested.identity != keys.get(site):
        raise BundleError(f"{name} is not signed by '{site}'")
    of_site = _plan(nested.payload)
    if of_site is None or of_site.digest != plan.digest:
        raise BundleError(f"{name} is of another plan than {PLAN}")
    if any(inner.startswith((SITES, "outputs/")) for inner in nested.payload):
        raise BundleError(f"{name} is not the bundle of one site")
    return nested


def _check_metadata(payload: Mapping[str, bytes]) -> None:
    """See that the metadata declare the profile and list the files that are there, no other."""
    for name, content in payload.items():
        if name.endswith((".json", ".toml")) and len(content) > MOST_OF_A_TEXT:
            raise BundleError(f"{name} has {len(content)} bytes, of {MOST_OF_A_TEXT} at most")
    try:
        entities = {each["@id"]: each for each in from_json(payload[METADATA])["@graph"]}
        root = entities["./"]
        listed = {unquote(part["@id"]) for part in root["hasPart"]}
        profile = root["conformsTo"]["@id"]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BundleError(f"{METADATA} does not describe a bundle") from error
    if profile != PROFILE:
        raise BundleError(f"{METADATA} does not declare the profile {PROFILE}")
    files = {part for part in listed if not part.endswith("/")}
    for name in sorted(files ^ (payload.keys() - {METADATA})):
        raise BundleError(f"{printable(name)} is not where {METADATA} says")
    for name, content in payload.items():
        if name.startswith("policies/"):
            try:
                Policy.loads(content.decode("utf-8"))
            except (CipherdagError, UnicodeDecodeError) as error:
                raise BundleError(f"{name} is not a site's policy") from error
    if ENVIRONMENT not in payload:
        raise BundleError(f"{ENVIRONMENT} is missing from the bundle")


def _plan(payload: Mapping[str, bytes]) -> Plan | None:
    if PLAN not in payload:
        return None
    plan = _decoded(payload, PLAN, Plan)
    try:
        plan.check(plan.session)
    except CipherdagError as error:
        raise BundleError(f"{PLAN}: {error.message}") from error
    return plan


def _study(payload: Mapping[str, bytes], plan: Plan | None) -> Study | None:
    """The study, signed by its coordinator; it pins the keys that the plan names."""
    if STUDY not in payload:
        return None
    signed = _decoded(payload, STUDY, SignedStudy)
    try:
        study = check_study(signed)
    except CipherdagError as error:
        raise BundleError(f"{STUDY}: {error.message}") from error
    for member in plan.cohort if plan is not None else ():
        pinned = study.pinned.get(member.name)
        if pinned != member.identity and not (pinned is None and member.name in study.revoked):
            raise BundleError(f"{PLAN} names another key for '{member.name}' than {STUDY} does")
    return study


def _signer(bag: Bag, plan: Plan | None, study: Study | None) -> str:
    """Who signed the files, by the name of the key: the coordinator, or a site of the plan."""
    if plan is None:
        if bag.identity is not None:
            raise BundleError(f"the bundle is signed, and no {PLAN} says whose key that is")
        if study is not None:
            raise BundleError(f"{PLAN} is missing from the bundle, which holds a {STUDY}")
        return ""
    names = {member.identity: member.name for member in plan.cohort}
    if study is not None:
        names[study.coordinator] = COORDINATOR
    if bag.identity is None:
        raise BundleError(f"{SIGNATURE_FILE} is missing from the bundle: nobody signed its files")
    if bag.identity not in names:
        raise BundleError("neither a site of the plan nor the coordinator signed the bundle")
    return names[bag.identity]


def _approvals(payload: Mapping[str, bytes], plan: Plan | None) -> Iterator[str]:
    keys = {} if plan is None else {member.name: member.identity for member in plan.cohort}
    for name, site in _of_sites(payload, "approvals/"):
        run = _decoded(payload, name, AskedRun)
        if plan is None or run.plan.digest != plan.digest or run.decision != "approved":
            raise BundleError(f"{name} does not approve {PLAN}")
        if site not in keys or not run.signed_by(keys[site]):
            raise BundleError(f"{name} does not bear the signature of '{site}'")
        yield site


def _record(payload: Mapping[str, bytes]) -> _Record:
    """What the coordinator has of the ledgers: their ends, and digests of all that arrived."""
    try:
        heads = reported_heads(from_json(payload[REPORT])) if REPORT in payload else {}
    except (ValueError, TypeError, OutputError) as error:
        raise BundleError(f"{REPORT} cannot be read") from error
    return _Record(heads, tuple(_transcript(payload)))


def _report(payload: Mapping[str, bytes]) -> Mapping[str, Any]:
    """The content of the result, whose graph fits in memory."""
    report = from_json(payload[REPORT])
    if len(report["variables"]) > MOST_VARIABLES:
        raise BundleError(f"{REPORT} has more than {MOST_VARIABLES} variables")
    return report


def _check_tables(payload: Mapping[str, bytes]) -> None:
    """See that the tables and the graph's files say what the result says."""
    if REPORT not in payload:
        return
    schema = payload.get(SCHEMA, b"")
    try:
        texts = finding_of(_report(payload), schema.decode("utf-8")).files()
        files = {f"outputs/{name}": text.encode() for name, text in texts.items()}
    except BundleError:
        raise
    except (*_UNREADABLE, CipherdagError) as error:
        raise BundleError(f"{REPORT} is not a result that this version reads") from error
    for name, content in files.items():
        if payload.get(name, content) != content:
            raise BundleError(f"{name} is not what {REPORT} says")


def _ledgers(
    payload: Mapping[str, bytes], plan: Plan | None, record: _Record
) -> Iterator[LedgerCheck]:
    """The ledgers: each whole, signed, of the plan's run, and as the result says that it ends."""
    try:
        ledgers = {
            site: ledger_lines(payload[name].decode("utf-8"))
            for name, site in _of_sites(payload, "ledgers/")
        }
    except ValueError as error:
        raise BundleError("a ledger cannot be read as text") from error
    if plan is None:
        for head in verify_ledgers(ledgers, record.heads).values():
            yield LedgerCheck(head, remark=clock_remark(read_releases(ledgers[head.site])))
        return
    keys = {member.name: member.identity.hex() for member in plan.cohort}
    for site, lines in ledgers.items():
        if site not in keys:
            raise BundleError(f"ledgers/{site}.jsonl is of a site that {PLAN} does not name")
        yield _of_plan(site, lines, plan, keys[site], record)


def _of_plan(
    site: str, lines: list[str], plan: Plan, identity: str, record: _Record
) -> LedgerCheck:
    """A ledger, held against the plan, and against the coordinator's record if that is there."""
    reported = record.heads.get(site)
    if reported is not None and reported.identity != identity:
        raise BundleError(f"{REPORT} names another key for '{site}' than {PLAN}")
    try:
        head, releases = verify_ledger(lines, identity=identity), read_releases(lines)
    except LedgerError as error:
        error.site = site
        raise
    session = plan.session.hex()
    if head.site != site or not any(release.session == session for release in releases):
        raise BundleError(f"ledgers/{site}.jsonl records nothing of the run of {PLAN}")
    if reported is not None:
        return check_ledger(lines, record.transcript, expected=reported)
    return LedgerCheck(head, remark=clock_remark(releases))


def _transcript(payload: Mapping[str, bytes]) -> Iterator[Received]:
    for line in payload.get(TRANSCRIPT, b"").splitlines():
        try:
            yield from_json(line, Received)
        except ValueError as error:
            raise BundleError(f"{TRANSCRIPT} is not the transcript of a run") from error


def _of_sites(payload: Mapping[str, Any], folder: str) -> Iterator[tuple[str, str]]:
    """The files of a folder, and whose each is."""
    for name in sorted(payload):
        if name.startswith(folder):
            yield name, name.removeprefix(folder).rpartition(".")[0]


def _decoded(payload: Mapping[str, bytes], name: str, kind: type[Decoded]) -> Decoded:
    try:
        return from_json(payload[name], kind)
    except ValueError as error:
        raise BundleError(f"{name} is not what its name says") from error
