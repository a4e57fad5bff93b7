"""What a bundle holds: plan, decisions, policies, ledgers, result and environment of one run.

    workflow/plan.json      the plan; of a run in one process run.toml, which says what ran
    approvals/SITE.json     the site's signed decision on the plan, without its note
    policies/SITE.toml      the site's policy as it is now, without comments
    study.json              the signed study, which pins the key of every site
    ledgers/SITE.jsonl      a site's ledger, up to the last record of the run
    sites/SITE.zip          of a coordinator's run, the site's bundle, which the site signed
    transcript.jsonl        digests of what the coordinator received
    outputs/                what a result folder holds of the finding
    environment.json        versions of packages

A file is taken by its name, so that nothing else in a folder is.

Leaks:
    Whoever has a bundle reads its files. A site's own bundle holds no row, no name of a column, no
    sum and no private key. That of a saved result holds what `Run.save` wrote.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cipherdag.algorithms.registry import title_of
from cipherdag.audit.auditing import site_ledger
from cipherdag.audit.bag import read_bag
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.errors import OutputError, ParameterError, SiteNotReadyError
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.program.versions import BEHIND_A_RESULT, package_versions
from cipherdag.protocol.journal import JOURNAL_FILE, TRANSCRIPT_FILE, read_plan
from cipherdag.protocol.plan import Plan
from cipherdag.results.folder import REPORT_FILE, read_report, read_rest
from cipherdag.results.run import Run
from cipherdag.results.site_result import ENDED_RUNS
from cipherdag.sites.policy.approvals import ASKED_FILE, AskedRun
from cipherdag.sites.record.ledger import CLOSED_RUN, ledger_lines, read_releases
from cipherdag.sites.record.run_record import RunRecord
from cipherdag.sites.study.site_folder import SiteFolder

PLAN = "workflow/plan.json"
SOURCE = "workflow/run.toml"
STUDY = "study.json"
COORDINATOR = "the coordinator"
SITES = "sites/"
TRANSCRIPT = TRANSCRIPT_FILE
ENVIRONMENT = "environment.json"
REPORT = f"outputs/{REPORT_FILE}"
SCHEMA = "outputs/schema.toml"
_BESIDE_A_FINDING = (REPORT_FILE, "report.html", "schema.toml", "graph.svg")


@dataclass(kw_only=True)
class Contents:
    """The files of a bundle by path, and what its metadata say of the run."""

    files: dict[str, bytes]  # content by path
    algorithm: str
    sites: tuple[str, ...]
    versions: Mapping[str, str]  # the libraries that computed it
    purpose: str = ""  # what the result is for; empty where no plan says it
    requester: str = ""  # who asked for it; likewise
    times: tuple[str, ...] = ()  # times of the run's records, in UTC (ISO 8601)
    approved: tuple[str, ...] = ()  # sites whose decision is in the files
    signer: str = ""  # name of the party that signs the bundle; empty where nobody does
    identity: SigningIdentity | None = field(default=None, repr=False)

    @property
    def title(self) -> str:
        """What ran, in words."""
        return f"{title_of(self.algorithm)} over {', '.join(self.sites)}"


def contents_of(source: Path, *, run: str = "", bundles: Sequence[Path] = ()) -> Contents:
    """The files on one run; see `cipherdag.audit.bundle.bundle`."""
    of_site, of_coordinator = (source / "site.toml").exists(), (source / JOURNAL_FILE).exists()
    if run and not of_site:
        raise ParameterError(
            f"{source} is no site's folder, of which --run chooses a run",
            remedy="Leave --run out: there is one run here.",
        )
    if bundles and not of_coordinator:
        raise ParameterError(
            f"{source} is no run of a coordinator, which --site adds to", remedy="Leave --site out."
        )
    if of_site:
        contents = _of_site(SiteFolder(source), run)
    elif of_coordinator:
        contents = _of_coordinator(source, bundles)
    else:
        contents = _of_result(source)
    environment = {
        "computed_with": dict(contents.versions),
        "bundled_with": package_versions(BEHIND_A_RESULT),
    }
    contents.files[ENVIRONMENT] = _json(environment)
    return contents


def _of_site(site: SiteFolder, run: str) -> Contents:
    """What a site may hand out of one of its runs: neither sums, nor names, nor its note."""
    record = RunRecord.latest(site.runs, run)
    plan, _ = record.read()
    name, (lines, _) = site.settings().name, site_ledger(site)
    cut = _up_to_end(lines, plan)
    files = {
        PLAN: plan.dumps().encode(),
        f"policies/{name}.toml": site.policy().dumps().encode(),
        f"ledgers/{name}.jsonl": _joined(cut),
    }
    if site.study_path.exists():
        files[STUDY] = site.study_path.read_bytes()
    approved: tuple[str, ...] = ()
    if (record.folder / ASKED_FILE).exists():
        asked = site.approvals().find(plan.session.hex())
        without = [msgspec.structs.replace(each, note="") for each in asked.decisions]
        public = msgspec.structs.replace(asked, consider="", decisions=tuple(without))
        files[f"approvals/{name}.json"] = _json(public)
        approved = (name,)
    return _planned(plan, files, _times(cut, plan), name, site.identity(), approved)


def _of_coordinator(folder: Path, paths: Sequence[Path]) -> Contents:
    """What a coordinator has of a run, and the bundles that sites sent it."""
    plan, coordinator = read_plan(folder / JOURNAL_FILE), CoordinatorFolder(folder.parent.parent)
    files = {
        PLAN: plan.dumps().encode(),
        TRANSCRIPT: (folder / TRANSCRIPT_FILE).read_bytes(),
        **_outputs(folder),
    }
    times: tuple[str, ...] = ()
    approved: tuple[str, ...] = ()
    names = {member.identity: member.name for member in plan.cohort}
    for path in paths:
        content = path.read_bytes()
        bag = read_bag(content, called=str(path))
        site = names.get(bag.identity or b"", "")
        if f"ledgers/{site}.jsonl" not in bag.payload:
            raise OutputError(
                f"{path} is no site's bundle",
                remedy="Have the site run `cipherdag audit bundle` on its folder, and send that.",
            )
        lines = ledger_lines(bag.payload[f"ledgers/{site}.jsonl"].decode("utf-8", "replace"))
        files[f"{SITES}{site}.zip"], times = content, (*times, *_times(lines, plan))
        if f"approvals/{site}.json" in bag.payload:
            approved = (*approved, site)
    try:
        identity = coordinator.identity()
        coordinator.study()
        files[STUDY] = coordinator.study_path.read_bytes()
    except (OutputError, SiteNotReadyError) as error:
        raise OutputError(
            f"{folder} does not lie under runs/ of a coordinator's folder",
            remedy="Name the run's folder where the coordinator wrote it.",
        ) from error
    return _planned(plan, files, times, COORDINATOR, identity, approved)


def _of_result(folder: Path) -> Contents:
    """What a run in one process saved."""
    report, rest = read_report(folder), read_rest(folder)
    if not rest.ledgers:
        raise OutputError(
            f"{folder} holds no ledger and no plan",
            remedy="Of a run over sites, name its folder under runs/ of the coordinator's folder.",
        )
    files = {f"ledgers/{site}.jsonl": _joined(lines) for site, lines in rest.ledgers.items()}
    if (folder / "run.toml").exists():
        files[SOURCE] = (folder / "run.toml").read_bytes()
    files |= _outputs(folder)
    return Contents(
        files=files,
        algorithm=str(report["algorithm"]),
        sites=tuple(report["sites"]),
        versions=report["versions"],
        times=tuple(time for lines in rest.ledgers.values() for time in _times(lines)),
    )


def _planned(
    plan: Plan,
    files: dict[str, bytes],
    times: tuple[str, ...],
    signer: str,
    identity: SigningIdentity,
    approved: tuple[str, ...] = (),
) -> Contents:
    return Contents(
        files=files,
        algorithm=plan.algorithm,
        sites=tuple(member.name for member in plan.cohort),
        versions=plan.versions,
        purpose=plan.purpose,
        requester=plan.requester,
        times=times or (plan.created,),
        approved=approved,
        signer=signer,
        identity=identity,
    )


def _outputs(folder: Path) -> dict[str, bytes]:
    """The files of a finding, by the names that `Run.save` gives them."""
    names = (*_BESIDE_A_FINDING, *Run.load(folder).finding.files())
    paths = {name: folder / name for name in names}
    return {f"outputs/{name}": path.read_bytes() for name, path in paths.items() if path.exists()}


def _up_to_end(lines: Sequence[str], plan: Plan) -> Sequence[str]:
    """A ledger up to the record that closes a plan's run."""
    session = plan.session.hex()
    of_run = [release for release in read_releases(lines) if release.session == session]
    if not any(release.kind == CLOSED_RUN for release in of_run):
        raise OutputError(f"run {session[:8]} did not come to its end", remedy=ENDED_RUNS)
    return lines[: of_run[-1].line]


def _times(lines: Iterable[str], plan: Plan | None = None) -> tuple[str, ...]:
    """The times of a ledger's records, or of those of a plan's run."""
    session = None if plan is None else plan.session.hex()
    releases = read_releases(lines)
    return tuple(r.time for r in releases if session is None or r.session == session)


def _joined(lines: Iterable[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


def _json(content: AskedRun | Mapping[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
