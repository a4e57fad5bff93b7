"""The folder of a saved run: written at its end, read and checked later."""

import json
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cipherdag.errors import (
    LedgerError,
    OutputError,
    ResultExistsError,
    UnreadableRunError,
    writing,
)
from cipherdag.pages.files import from_json, to_json
from cipherdag.protocol.durable_files import make_folder, write_whole
from cipherdag.protocol.progress import LedgerHead
from cipherdag.questions.disclosure import Disclosure
from cipherdag.sites.policy.parameter_rules import declared
from cipherdag.sites.record.ledger import Release, ledger_lines, read_releases, verify_ledger

REPORT_FILE = "result.json"
ALWAYS = ("report.html", "run.toml", "schema.toml", "releases", "edges.csv", "graph.svg")
"""What a folder is looked through for before a run: of each result, and of a graph."""
UNFINISHED = "unfinished"  # what is kept of a run in one process until its result is saved


@dataclass(frozen=True, slots=True)
class SavedFiles:
    """The files of a folder but `result.json`: ledgers by site, the run's source, the schema."""

    ledgers: Mapping[str, tuple[str, ...]] = field(repr=False)
    source: Mapping[str, Any]
    schema: str


def write_folder(
    folder: str | Path, texts: Mapping[str, str], ledgers: Mapping[str, tuple[str, ...]]
) -> Path:
    """Write a result folder: texts by file name, and ``releases/<site>.jsonl``; or OutputError."""
    path = Path(folder)
    with writing(path):
        make_folder(path / "releases")
        for old in (path / "releases").glob("*.jsonl"):
            old.unlink()
        for name, text in texts.items():
            write_whole(path / name, text)
        for site, lines in ledgers.items():
            content = "".join(line + "\n" for line in lines)
            write_whole(path / "releases" / f"{site}.jsonl", content)
        if (path / UNFINISHED).exists():
            shutil.rmtree(path / UNFINISHED)
    return path


def new_result_folder(folder: Path, *, force: bool) -> None:
    """Make the folder before a long run, and see that no other result is lost to it.

    With ``force`` a result in it may be overwritten, and a run that was stopped be given up. Raises
    ResultExistsError where there is one, and OutputError where the folder cannot be made or
    written.
    """
    stopped = (folder / UNFINISHED).exists()
    if stopped and not force:
        raise ResultExistsError(
            f"{folder} holds a run that was stopped",
            remedy=f"Go on with `cipherdag run --resume {folder}`, or begin anew with --force.",
        )
    if not force:
        refuse_result(folder)
    writable_folder(folder)
    if stopped:
        with writing(folder):
            shutil.rmtree(folder / UNFINISHED)


def refuse_result(folder: Path, files: Iterable[str] = ALWAYS) -> None:
    """Raise ResultExistsError where a folder holds a result, or files that one would overwrite."""
    if (folder / REPORT_FILE).exists():
        raise ResultExistsError(f"{folder} holds the result of another run")
    foreign = next((name for name in files if (folder / name).exists()), None)
    if foreign is not None:
        raise ResultExistsError(
            f"{folder / foreign} is there and belongs to no result: it would be overwritten",
            remedy="Name another folder with --out, or overwrite the file with --force.",
        )


def writable_folder(folder: Path) -> None:
    """Make the folder before a long run, so that the run is not lost; or raise OutputError."""
    with writing(folder):
        make_folder(folder)
        probe = folder / ".cipherdag-writable"
        probe.touch()
        probe.unlink()


def read_report(folder: str | Path) -> dict[str, Any]:
    """The content of `result.json`; OutputError if the folder holds no readable result."""
    path = Path(folder) / REPORT_FILE
    report = _parsed(path, from_json)
    if not isinstance(report, dict) or not {"variables", "ledgers"} <= set(report):
        raise UnreadableRunError(f"{path} is not the result of a run")
    return report


def kind_of(report: Mapping[str, Any]) -> str:
    """The kind of a result, which revision 0.1 did not write down."""
    return str(report.get("kind", "graph" if "edges" in report else "features"))


def read_rest(folder: str | Path) -> SavedFiles:
    """Read the files beside `result.json`; one that is not there counts as empty.

    OutputError where a file cannot be read, LedgerError where a ledger cannot be read as text.
    """
    path = Path(folder)
    source, schema = path / "run.toml", path / "schema.toml"
    return SavedFiles(
        ledgers={site: tuple(lines) for site, lines in _ledgers(path).items()},
        source=_parsed(source, tomllib.loads) if source.exists() else {},
        schema=_parsed(schema, str) if schema.exists() else "",
    )


def read_folder_releases(folder: Path) -> dict[str, list[Release]]:
    """The unverified records of every ledger in a result folder, by site; or an OutputError."""
    return {name: read_releases(lines) for name, lines in _some_ledgers(folder).items()}


def declared_in(folder: Path) -> frozenset[Disclosure]:
    """What the run of a result folder declared, as far as its `result.json` is there to say."""
    report = _parsed(folder / REPORT_FILE, from_json) if (folder / REPORT_FILE).exists() else {}
    return declared(str(report.get("algorithm")), report.get("parameters", {}))


def verify_folder(folder: Path) -> dict[str, LedgerHead]:
    """Check every ledger of a result folder; raises as `verify_ledgers`, or an OutputError."""
    return verify_ledgers(_some_ledgers(folder), reported_heads(read_report(folder)))


def reported_heads(report: Mapping[str, Any]) -> dict[str, LedgerHead]:
    """The heads of the ledgers at the end of a run, by its `result.json`; or an OutputError."""
    try:
        return msgspec.convert(report["ledgers"], dict[str, LedgerHead])
    except (KeyError, msgspec.ValidationError) as error:
        raise UnreadableRunError("the result does not say where the ledgers ended") from error


def verify_ledgers(
    ledgers: Mapping[str, Sequence[str]], expected: Mapping[str, LedgerHead]
) -> dict[str, LedgerHead]:
    """Check the ledgers of a result, by site, against the heads that the sites reported.

    LedgerError where a line is wrong (it is named), lines are missing at the end, or a ledger is.
    """
    heads: dict[str, LedgerHead] = {}
    for site in sorted(set(expected) | set(ledgers)):
        if site not in ledgers or site not in expected:
            raise LedgerError("the ledger is missing, or no site of the run has it", site=site)
        reported = expected[site]
        try:
            head = verify_ledger(ledgers[site], identity=reported.identity)
        except LedgerError as error:
            error.site = site
            raise
        if (head.records, head.hash) != (reported.records, reported.hash):
            raise LedgerError(
                f"the ledger ends after line {head.records} with another record than the site "
                f"reported, whose line {reported.records} was the last",
                line=head.records,
                site=site,
            )
        heads[site] = head
    return heads


def read_run_toml(path: Path, asked: str = "") -> dict[str, Any]:
    """The description of a saved run; ``asked`` is what real sites are to run, if not the same.

    OutputError where the file is not there or not a run's description, or says nothing, as that of
    a run which was not started on the command line.
    """
    source: dict[str, Any] = _parsed(path, tomllib.loads)
    if not source:
        raise OutputError(
            f"{path} names no data: the run was started in Python, where its rows lay in memory or "
            "the program named the files, or over real sites",
            remedy="Start it there again: result.json has the parameters and the seed.",
        )
    if source.get("command") == "coordinator run":
        raise OutputError(
            f"{path} describes a run over real sites, whose people approve each one",
            remedy=f"Ask them again: `cipherdag coordinator run {asked or source.get('algorithm')} "
            f"--purpose ...`{'' if asked else ', with the option that changes'}.",
        )
    needed = {"command", "files", "parameters", "protection", "seed", "device", "algorithm"}
    if not needed <= set(source):
        raise UnreadableRunError(f"{path} does not describe a run")
    return source


def run_toml(source: Mapping[str, Any]) -> str:
    """A run's description as TOML: strings, numbers, booleans, lists and one level of tables."""
    lines = ["# Repeats this run: cipherdag repeat FOLDER", ""]
    tables = {key: value for key, value in source.items() if isinstance(value, Mapping)}
    lines += [f"{key} = {_toml(value)}" for key, value in source.items() if key not in tables]
    for key, table in tables.items():
        lines += ["", f"[{key}]"]
        lines += [f"{name} = {_toml(value)}" for name, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"


def json_text(report: Mapping[str, Any]) -> str:
    """A report as it stands in `result.json`; OutputError at a number that is not finite."""
    try:
        return to_json(report, indent=2) + "\n"
    except ValueError as error:
        raise OutputError(
            "a number of the result is not finite",
            remedy="Report this as a bug, with the algorithm and its parameters.",
        ) from error


def _ledgers(folder: Path) -> dict[str, list[str]]:
    files = sorted((folder / "releases").glob("*.jsonl"))
    try:
        return {file.stem: ledger_lines(file.read_text("utf-8")) for file in files}
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(
            f"a ledger of {folder} cannot be read as text",
            remedy="Name the folder of another run, or copy this one again.",
        ) from error


def _some_ledgers(folder: Path) -> dict[str, list[str]]:
    ledgers = _ledgers(folder)
    if not ledgers:
        raise OutputError(f"{folder} holds no ledger", remedy="Name the --out folder of a run.")
    return ledgers


def _parsed(path: Path, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OutputError(
            f"{path} cannot be read", remedy="Name the --out folder of a finished run."
        ) from error


def _toml(value: Any) -> str:
    # JSON strings, numbers, booleans and lists of them are valid TOML values
    return json.dumps(value, ensure_ascii=False)
