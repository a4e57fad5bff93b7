"""Everything a run needs of a site, checked before the run: check, finding, fix.

Leaks:
    Nothing leaves the site but a connection to the coordinator. Findings name columns and limits,
    for the site's own screen, and never a value of the data or a number of rows with one. How many
    rows repeat another is said there, too.
"""

import os
import platform
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from cipherdag.errors import CipherdagError, DataError, LedgerError, UnreadableDataError
from cipherdag.pages.language import ENGLISH, Language
from cipherdag.pages.numerals import counted
from cipherdag.privacy.protections import PROTECTING
from cipherdag.protocol.plan import Protection
from cipherdag.sites.drafts.related_columns import contradicted, related_columns
from cipherdag.sites.drafts.repeated_keys import key_question, possible_keys
from cipherdag.sites.drafts.table_suspicions import COPIES, table_suspicions
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import Ledger, clock_remark, ledger_lines, read_releases
from cipherdag.sites.record.witnesses import Witness
from cipherdag.sites.study.checks import CheckResult, certificate_checks, connection_checks, utc_now
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings
from cipherdag.sites.study.study import Study
from cipherdag.sites.table.cells import TextCells
from cipherdag.sites.table.reading import TableSource, open_table
from cipherdag.sites.table.repeated_rows import repeated_rows
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import SiteTable, load_table

Rehearsal = Callable[[Protection], None]

CLOCK_SLACK = timedelta(minutes=5)
WORKING_COPIES = 6  # of numbers: an allowance for what the tests keep, not a measured bound
CODE_COPIES = 2  # of codes: their bits are measured to be half as large
MEMORY = Path("/proc/meminfo")
LOOKED_AT = 1000
MOSTLY_DISTINCT = 0.9
NO_REPEAT = "no row repeats another"
_MOST_SHOWN = 5
_HASH = re.compile(r"[0-9a-f]{32,128}|[A-Za-z0-9+/_-]{43,88}={0,2}", re.IGNORECASE)


def examine(
    site: SiteFolder, *, rehearse: Rehearsal, clock: Callable[[], datetime] = utc_now
) -> list[CheckResult]:
    """Check a site's folder, its data and its way to the coordinator, a finding for each check.

    Checks that need an earlier one are left out where that failed, and those of a shared folder are
    `cipherdag.deployment.shared_folder.folder_checks`.
    """
    try:
        settings = site.settings()
    except CipherdagError as error:
        return [_versions(flare=True), CheckResult.failed("site.toml", error)]
    findings = [_versions(flare=settings.engine == "flare")]
    findings.append(CheckResult("site.toml", "ok", f"site '{settings.name}'"))
    policy, results = _policy(site)
    findings += results
    findings.append(_keys(site))
    study, results = _study(site)
    findings += results
    findings += _clock(site, study, clock())
    findings.append(_ledger(site, settings))
    if settings.engine == "flare":
        findings += _connection(site, settings, study, clock())
    findings += _data(site, settings, policy)
    findings += _rehearsal(policy, rehearse)
    return findings


def _versions(*, flare: bool) -> CheckResult:
    versions = f"Python {platform.python_version()}, cipherdag {version('cipherdag')}"
    try:
        versions += f", nvflare {version('nvflare')}" if flare else ""
    except PackageNotFoundError:
        fix = "Run `pip install 'cipherdag[flare]'`."
        return CheckResult("versions", "fail", f"{versions}, no nvflare", fix)
    return CheckResult("versions", "ok", versions)


def _policy(site: SiteFolder) -> tuple[Policy | None, list[CheckResult]]:
    try:
        policy = site.policy()
    except CipherdagError as error:
        return None, [CheckResult.failed("policy.toml", error)]
    approval = "each run by hand" if policy.approve_runs == "manual" else "runs without asking"
    allowed, sites = counted(len(policy.algorithms), "algorithm"), counted(policy.min_sites, "site")
    detail = f"{allowed}, {sites} or more, {approval}"
    if not policy.allow_unprotected:
        return policy, [CheckResult("policy.toml", "ok", detail)]
    detail += "; answers may leave in the clear"
    fix = "Set allow_unprotected = false unless the data are made up."
    return policy, [CheckResult("policy.toml", "warn", detail, fix)]


def _keys(site: SiteFolder) -> CheckResult:
    try:
        site.identity()
        site.check_keys()
    except (CipherdagError, OSError) as error:
        return CheckResult.failed("keys", error)
    posix = os.name == "posix"
    read = "readable by you alone" if posix else "who may read them is not looked at on this system"
    return CheckResult("keys", "ok", f"{len(site.private_keys)} private keys, {read}")


def _study(site: SiteFolder) -> tuple[Study | None, list[CheckResult]]:
    try:
        study = site.study()
        site.settings().check_host(study)
    except CipherdagError as error:
        failed = CheckResult.failed("study", error)
        return None, [failed if site.study_path.exists() else replace(failed, state="warn")]
    detail = f"'{study.name}', version {study.version}, {len(study.sites)} sites"
    return study, [CheckResult("study", "ok", detail)]


def _clock(site: SiteFolder, study: Study | None, now: datetime) -> Iterator[CheckResult]:
    """This clock against the newest time that others, or this site's ledger, have signed."""
    signed: list[tuple[datetime, str]] = []
    back = ""
    try:
        if study is not None:
            signed.append((datetime.fromisoformat(study.issued), "the study was signed"))
        if site.ledger_path.exists():
            releases = read_releases(ledger_lines(site.ledger_path.read_text("utf-8")))
            times = (datetime.fromisoformat(release.time) for release in releases[-1:])
            signed += [(time, "the ledger was written") for time in times]
            back = clock_remark(releases)
        ahead = [what for time, what in signed if time.astimezone(UTC) > now + CLOCK_SLACK]
    except (CipherdagError, OSError, ValueError):
        yield CheckResult("clock", "fail", "the ledger or the study has no readable time")
        return
    here = f"{now:%Y-%m-%d %H:%M} UTC"
    if ahead:
        fix = "Set this machine's clock right, best by a time service."
        yield CheckResult("clock", "fail", f"it is {here} here, before {ahead[0]}", fix)
    elif back:
        fix = "No run is hindered; keep the clock right by a time service, and say so to auditors."
        yield CheckResult("clock", "warn", f"{here}; {back} of the ledger", fix)
    else:
        said = ", after all that was signed" if signed else "; nothing to compare it with yet"
        yield CheckResult("clock", "ok", f"{here}{said}")


def _ledger(site: SiteFolder, settings: SiteSettings) -> CheckResult:
    """Check that the ledger is whole, and has every record that other sites saw."""
    path = site.ledger_path
    try:
        identity = site.identity()
        lines = ledger_lines(path.read_text("utf-8")) if path.exists() else []
        ledger = Ledger(settings.name, identity, lines=lines)
        Witness(site.witnessed_path, settings.name, identity.public, ledger).check_complete()
    except (CipherdagError, OSError, ValueError) as error:
        failed = CheckResult.failed("ledger", error)
        return replace(failed, fix=failed.fix or LedgerError.default_remedy)
    detail = "unbroken and signed; no other site has shown a record that it lacks"
    return CheckResult("ledger", "ok", detail)


def _connection(
    site: SiteFolder, settings: SiteSettings, study: Study | None, now: datetime
) -> Iterator[CheckResult]:
    if study is not None:
        yield from certificate_checks(site.tls_chain, now)
    host, port = (study.host, study.port) if study else (settings.host, settings.port)
    if host:
        yield from connection_checks(host, port, site.tls_key, site.tls_chain, study=settings.study)
    else:
        fix = "Fill in host in site.toml."
        yield CheckResult("DNS", "warn", "no coordinator is named yet", fix)


def _data(site: SiteFolder, settings: SiteSettings, policy: Policy | None) -> Iterator[CheckResult]:
    try:
        schema = Schema.load(site.schema_path(settings))
    except DataError as error:
        yield CheckResult.failed("schema", error)
        return
    yield CheckResult("schema", "ok", f"{len(schema.names)} variables")
    try:
        table = load_table(site.data_source(settings), schema, site=settings.name, folder=site.path)
    except DataError as error:
        yield CheckResult("data", "fail", *without_values(error))
        return
    yield CheckResult("data", "ok", f"readable and as the schema says, {table.kind}")
    yield _suspicions(table)
    yield _repeats(table)
    yield _whose(table, site.data_source(settings))
    yield _relations(table)
    if policy is not None:
        yield from _limits(table, policy)
    yield from _identifiers(site, settings, schema)
    yield _memory(table)


def without_values(error: DataError) -> tuple[str, str]:
    """Describe a fault of the data, its location and its remedy, without a value of a cell."""
    if isinstance(error, UnreadableDataError):
        return error.message, error.remedy
    fix = type(error).default_remedy if error.location else error.remedy
    column = f"column '{error.column}'" if error.column else ""
    where = ", ".join(filter(None, (column, error.location)))
    return f"{error.summary} ({where})" if where else error.summary, fix


def _suspicions(table: SiteTable) -> CheckResult:
    """Check for values that look like mistakes, by column and without a value."""
    suspicions = table_suspicions(table)
    odd = dict.fromkeys(
        f"'{column}': {each.kind}" if column else each.kind
        for column, each in suspicions
        if each.kind != COPIES
    )
    if not odd:
        return CheckResult("odd values", "ok", "nothing looks like a mistake")
    fix = (
        "Read the lines with LOOK that `cipherdag schema infer` writes for the data; then correct "
        "the cells, or declare missing, synonyms, unit or plausible in schema.toml."
    )
    return CheckResult("odd values", "warn", _listed([*odd], "; "), fix)


def question_of_visits(site: SiteFolder, say: Language = ENGLISH) -> list[str]:
    """What the person who approves a run is asked until the schema says whose rows they are.

    At most one sentence; none where the data cannot be read, which a run says of itself.
    """
    settings = site.settings()
    try:
        schema = Schema.load(site.schema_path(settings))
        if schema.answered:
            return []
        source = site.data_source(settings)
        table = load_table(source, schema, site=settings.name, folder=site.path)
    except DataError:
        return []
    odd = _repeated(table, source)
    asked = say(
        "{columns} may say whose visit a row is, and every row would count as a person. See site "
        "check.",
        columns=_listed(odd, f" {say('or')} "),
    )
    return [f"{say('LOOK:')} {asked}"] if odd else []


def _repeated(table: SiteTable, source: TableSource) -> list[str]:
    """Names of columns that may be keys of patients."""
    asked = key_question(source, table, possible_keys(table.schema))
    return [f"'{name}'" for name in asked[0]] if asked else []


def _whose(table: SiteTable, source: TableSource) -> CheckResult:
    """Check whether rows may be visits of patients, until the schema says it."""
    odd = _repeated(table, source)
    if not odd:
        return CheckResult("whose rows", "ok", "no column seems to say whose visit a row is")
    fix = (
        'Write kind = "patient" for such a column in schema.toml; or, if no person has two rows, '
        'rows = "persons" at its top. Without it every row counts as a person.'
    )
    return CheckResult("whose rows", "warn", f"values repeat: {_listed(odd, ', ')}", fix)


def _repeats(table: SiteTable) -> CheckResult:
    """Say how many rows repeat another in all columns of the study."""
    repeats, check = repeated_rows(table), "repeated rows"
    said = f"{repeats.rows:,} of {table.rows:,} rows repeat another in all columns of the study"
    if repeats.copied:
        fix = "If they are copies, keep one of each: every copy counts as another case."
        return CheckResult(check, "warn", f"{said}, beyond chance", fix)
    return CheckResult(check, "ok", f"{said}, as chance may" if repeats.rows else NO_REPEAT)


def _relations(table: SiteTable) -> CheckResult:
    """Columns that follow from others here, against those that the schema declares."""
    relations, declared = {*related_columns(table)}, {*table.schema.applied}
    missing = sorted(each.in_words() for each in relations - declared)
    wrong = sorted(each.in_words() for each in declared if contradicted(each, table))
    if missing or wrong:
        said = [f"not declared: {each}" for each in missing]
        said += [f"declared, and not so here: {each}" for each in wrong]
        finding = _listed(said, "; ")
        fix = (
            'Agree with the other sites: set kind = "ignore" for all but one of such columns, or '
            "copy [[relations]] from what `cipherdag schema infer` writes into schema.toml at all."
        )
        return CheckResult("related columns", "warn", finding, fix)
    what = "as the schema declares" if declared else "no column follows from others"
    return CheckResult("related columns", "ok", what)


def _limits(table: SiteTable, policy: Policy) -> Iterator[CheckResult]:
    if table.rows < policy.min_rows:
        fix = "This site refuses every run. Lower min_rows only if the hospital agrees."
        yield CheckResult("rows", "fail", "fewer rows than min_rows of the policy", fix)
    else:
        yield CheckResult("rows", "ok", "as many rows as the policy asks for")
    if table.codes is None:
        return
    counts = (np.bincount(codes[codes >= 0]) for codes in table.codes.T)
    least = [count[count > 0].min(initial=policy.min_cell_size) for count in counts]
    small = [f"'{n}'" for n, m in zip(table.names, least, strict=True) if m < policy.min_cell_size]
    if small:
        columns = _listed(small, ", ")
        finding = f"a category of {columns} has fewer rows than min_cell_size"
        fix = "Stratified sums, votes and comparisons are not affected; pooled counts are withheld."
        yield CheckResult("smallest cell", "warn", finding, fix)
    else:
        yield CheckResult("smallest cell", "ok", "every category has min_cell_size rows or none")


def _identifiers(site: SiteFolder, settings: SiteSettings, schema: Schema) -> Iterator[CheckResult]:
    """Check whether an unread column looks like identifiers that are not hashed."""
    ignored = {column.name for column in schema.columns if column.kind == "ignore"}
    plain = []
    with open_table(schema.described(site.data_source(settings))) as table:
        chunk = next(table.chunks, None)
        if chunk is not None:
            for name, cells in zip(table.names, chunk, strict=True):
                if name in ignored and _looks_plain(cells.as_text()):
                    plain.append(name)
    if plain:
        columns = ", ".join(f"'{name}'" for name in plain[:5])
        finding = f"{columns} looks like identifiers of persons that are not hashed"
        fix = "No run reads the column; remove it from the file, or hash it with a key."
        yield CheckResult("identifiers", "warn", finding, fix)
    else:
        yield CheckResult("identifiers", "ok", "no column looks like identifiers in the clear")


def _looks_plain(cells: TextCells) -> bool:
    texts = [cells.at(row) for row in range(min(len(cells), LOOKED_AT))]
    if len(texts) < 2 or len(set(texts)) < MOSTLY_DISTINCT * len(texts):  # noqa: PLR2004
        return False
    hashed = sum(bool(_HASH.fullmatch(text)) for text in texts)
    return hashed < MOSTLY_DISTINCT * len(texts)


def _listed(each: list[str], mark: str) -> str:
    """The first of them, and whether there are more."""
    return mark.join(each[:_MOST_SHOWN]) + (f"{mark}..." if each[_MOST_SHOWN:] else "")


def _memory(table: SiteTable) -> CheckResult:
    held = zip((table.codes, table.values), (CODE_COPIES, WORKING_COPIES), strict=True)
    needed = sum(each.nbytes * copies for each, copies in held if each is not None) / 1e9
    try:
        lines = MEMORY.read_text("ascii").splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) / 1e6
    except (OSError, ValueError, StopIteration):
        detail = f"not known on this system; a run may need {needed:.1f} GB"
        return CheckResult("memory", "ok", detail)
    detail = f"{free:.1f} GB free, a run may need {needed:.1f} GB"
    if free < needed:
        fix = "Close other programs or use a larger machine."
        return CheckResult("memory", "warn", detail, fix)
    return CheckResult("memory", "ok", detail)


def _rehearsal(policy: Policy | None, rehearse: Rehearsal) -> Iterator[CheckResult]:
    for protection in PROTECTING:
        if policy is not None and protection not in policy.protections:
            continue
        check = f"sum of zeros, {protection}"
        try:
            rehearse(protection)
        except CipherdagError as error:
            yield CheckResult.failed(check, error)
        else:
            yield CheckResult(check, "ok", "three pretend sites agreed keys and summed to zero")
