"""The metadata of a bundle: RO-Crate 1.2 by the profile Five Safes RO-Crate 0.4.

The run is a ``CreateAction``, each site's approval an ``AssessAction`` of the kind sign-off. The
plan is the workflow; it has a crate of its own, since the profile asks for a Workflow RO-Crate.

Source:
    S. Soiland-Reyes and S. Wheater, Five Safes RO-Crate profile 0.4, https://w3id.org/5s-crate/0.4.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from cipherdag.audit.contents import PLAN, SITES, SOURCE, Contents
from cipherdag.errors import OutputError
from cipherdag.pages.files import to_json

if TYPE_CHECKING:
    from rocrate.rocrate import ROCrate

METADATA = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/5s-crate/0.4"
WORKFLOW_PROFILE = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
SIGN_OFF = "https://w3id.org/shp#SignOff"
COMPLETED = "http://schema.org/CompletedActionStatus"
VERSION = "1.2"
_WORKFLOW = "workflow/"
_MEDIA_TYPES = {
    "json": "application/json", "jsonl": "application/jsonl", "toml": "application/toml",
    "csv": "text/csv", "html": "text/html", "svg": "image/svg+xml", "graphml": "application/xml",
    "dot": "text/vnd.graphviz", "zip": "application/zip",
}  # fmt: skip
_LANGUAGES = {
    "json": ("https://www.rfc-editor.org/rfc/rfc8259", "RFC 8259"),
    "toml": ("https://toml.io/en/v1.0.0", "1.0.0"),
}
_ABOUT = {
    "workflow": "What was run",
    "approvals": "The signed decision of a person of a site",
    "policies": "What a site allows",
    "ledgers": "A site's record of all that left it",
    "sites": "The bundle that a site made and signed",
    "outputs": "A file of the result",
    "study.json": "The signed study, which pins the keys of its sites",
    "transcript.jsonl": "Digests of the replies that the coordinator received",
    "environment.json": "Versions of the packages that computed and bundled the result",
}


def add_metadata(contents: Contents, *, identifier: UUID, written: datetime) -> None:
    """Add the metadata to a bundle's contents (``written``: UTC); OutputError without rocrate."""
    program = PLAN if PLAN in contents.files else SOURCE
    if program in contents.files:
        nested = _workflow_crate(program.removeprefix(_WORKFLOW), contents, written)
        contents.files[_WORKFLOW + METADATA] = _text(nested)
    crate = _crate(contents.title, written)
    root = crate.root_dataset
    root["identifier"] = identifier.urn
    root["description"] = (
        "The result of a federated run with its evidence. `cipherdag audit verify` checks it."
    )
    _add_files(crate, contents.files)
    _add(crate, PROFILE, "Profile", name="Five Safes RO-Crate profile")
    root["conformsTo"] = _to(PROFILE)
    project = _add(crate, "#project", "Project", name=contents.purpose or "no purpose was stated")
    root["sourceOrganization"] = project
    workflow = _add(
        crate,
        _WORKFLOW,
        "Dataset",
        name=contents.title,
        description=_ABOUT["workflow"],
        conformsTo=_to(WORKFLOW_PROFILE),
        hasPart=_references(contents.files, _WORKFLOW),
    )
    _add(crate, WORKFLOW_PROFILE, "Profile", name="Workflow RO-Crate profile")
    root["mainEntity"] = workflow
    root["hasPart"] = [*(_to(part.id) for part in root["hasPart"]), workflow]
    mentioned = [_run(crate, contents), *_sign_offs(crate, contents)]
    root["mentions"] = mentioned if mentioned[1:] else mentioned[0]
    contents.files[METADATA] = _text(crate)


def _crate(name: str, written: datetime) -> ROCrate:
    """An empty crate with the properties that every root has."""
    try:
        from rocrate.rocrate import ROCrate
    except ImportError as error:
        raise OutputError(
            "rocrate, which describes a bundle, is not installed",
            remedy="Run `pip install 'cipherdag[crate]'`.",
        ) from error
    crate = ROCrate(version=VERSION)
    crate.root_dataset["name"] = name
    crate.root_dataset["datePublished"] = written.isoformat(timespec="seconds")
    conditions = _add(
        crate,
        "#conditions",
        "CreativeWork",
        name="No licence is granted",
        description="Ask whoever made the bundle who may use it, and for what.",
    )
    crate.root_dataset["license"] = conditions
    return crate


def _add(crate: ROCrate, identifier: str, kind: str, **properties: Any) -> dict[str, str]:
    """Add a contextual entity; the reference to it."""
    from rocrate.model.contextentity import ContextEntity

    crate.add(ContextEntity(crate, identifier, properties={"@type": kind, **properties}))
    return _to(identifier)


def _to(identifier: str) -> dict[str, str]:
    return {"@id": identifier}


def _add_files(crate: ROCrate, files: dict[str, bytes]) -> None:
    for path, content in sorted(files.items()):
        properties = {
            "name": path,
            "description": _ABOUT[path.partition("/")[0]],
            "encodingFormat": _MEDIA_TYPES[path.rpartition(".")[2]],
            "contentSize": str(len(content)),
        }
        crate.add_file(dest_path=path, properties=properties)


def _run(crate: ROCrate, contents: Contents) -> dict[str, str]:
    """The run, as the action that made the outputs."""
    if contents.requester:
        requester = _add(crate, "#requester", "Person", name=contents.requester)
    else:
        requester = _add(crate, "#requester", "Person", name="not named: the run has no plan")
    return _add(
        crate,
        "#run",
        "CreateAction",
        name=contents.title,
        actionStatus=COMPLETED,
        agent=requester,
        instrument=_to(_WORKFLOW),
        object=_references(contents.files, _WORKFLOW),
        result=_references(contents.files, "outputs/"),
        startTime=min(contents.times),
        endTime=max(contents.times),
    )


def _sign_offs(crate: ROCrate, contents: Contents) -> list[dict[str, str]]:
    """The approvals of sites, each by its site and under its policy."""
    return [
        _add(
            crate,
            f"#approval-{number}",
            "AssessAction",
            name=f"{site} approved the plan",
            additionalType=_to(SIGN_OFF),
            actionStatus=COMPLETED,
            agent=_add(crate, f"#site-{number}", "Organization", name=site),
            instrument=_of_site(contents, f"policies/{site}.toml", site),
            object=[_to("./"), _to(_WORKFLOW), _to("#project")],
            result=_of_site(contents, f"approvals/{site}.json", site),
        )
        for number, site in enumerate(contents.approved, start=1)
    ]


def _of_site(contents: Contents, path: str, site: str) -> dict[str, str]:
    """A file of a site, or the site's bundle, which holds it."""
    return _to(path if path in contents.files else f"{SITES}{site}.zip")


def _references(files: dict[str, bytes], folder: str) -> list[dict[str, str]]:
    return [_to(path) for path in sorted(files) if path.startswith(folder)]


def _workflow_crate(program: str, contents: Contents, written: datetime) -> ROCrate:
    """The crate of what was run: a plan or a run's description is its main workflow."""
    crate = _crate(contents.title, written)
    root = crate.root_dataset
    root["description"] = "The algorithm, its parameters and the sites of one run."
    root["conformsTo"] = _to(WORKFLOW_PROFILE)
    _add(crate, WORKFLOW_PROFILE, "Profile", name="Workflow RO-Crate profile")
    media = program.rpartition(".")[2]
    url, version = _LANGUAGES[media]
    language = _add(
        crate, url, "ComputerLanguage", name=media.upper(), url=_to(url), version=version
    )
    crate.add_file(
        dest_path=program,
        properties={
            "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
            "name": contents.title,
            "description": _ABOUT["workflow"],
            "programmingLanguage": language,
            "encodingFormat": _MEDIA_TYPES[media],
            "contentSize": str(len(contents.files[_WORKFLOW + program])),
        },
    )
    root["mainEntity"] = _to(program)
    return crate


def _text(crate: ROCrate) -> bytes:
    content = crate.metadata.generate()
    return (to_json(content, indent=2) + "\n").encode()
