"""What commands print with ``--json``, as types; docs/json_schema.py has the schema of all."""

from collections.abc import Sequence
from dataclasses import dataclass

import click
import msgspec

from cipherdag.errors import CipherdagError

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@dataclass(frozen=True, slots=True)
class Written:
    """A file or folder that a command wrote."""

    wrote: str


@dataclass(frozen=True, slots=True)
class Exported(Written):
    """A ledger or transcript that was exported."""

    records: int


@dataclass(frozen=True, slots=True)
class Bundled(Written):
    """A result bundled with its evidence; nobody signed it where the signer is empty."""

    files: int
    signer: str


@dataclass(frozen=True, slots=True)
class Coded(Written):
    """What was written, and the code of words and fingerprint to be read aloud."""

    code: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Made(Written):
    """A site's folder, and the algorithms of which it takes part in runs."""

    algorithms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Activated:
    """The study that a site takes part in, and the sites that came and went."""

    study: str
    version: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    code: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Approved:
    """The study after a change, and the file to send to each site."""

    sites: int
    needed: int
    send: dict[str, str]


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided on a plan and by whom; ``started`` says whether the site is."""

    session: str
    decision: str
    algorithm: str
    protection: str
    started: bool
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Previewed:
    """Of each column of an OMOP study: rows, rows that have it, records, those in its unit."""

    columns: list[dict[str, str | int]]


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan in sentences, and the file it was written into, if any."""

    session: str
    account: tuple[str, ...]
    wrote: str | None


@dataclass(frozen=True, slots=True)
class Drafted:
    """A schema as TOML, what was said of it, and the file it was written into, if any."""

    schema: str
    said: tuple[str, ...]
    wrote: str | None


@dataclass(frozen=True, slots=True)
class ShownEdge:
    """An edge of a graph; the mark is read from ``source`` to ``target``."""

    source: str
    mark: str
    target: str


@dataclass(frozen=True, slots=True)
class ShownGraph:
    """A learnt graph, and the drawings that were written."""

    edges: tuple[ShownEdge, ...]
    wrote: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """What a command says on standard error when it fails; ``remedy`` says what to do."""

    error: str
    site: str | None
    cause: str
    effect: str
    remedy: str
    exit_code: int


def printed(value: object, lines: Sequence[str], *, as_json: bool) -> None:
    """Print a value as JSON, or the lines that say it to a person."""
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
    elif lines:
        click.echo("\n".join(lines))


def failure(error: CipherdagError) -> Failure:
    """An error as ``--json`` has it."""
    return Failure(
        error=type(error).__name__,
        site=error.site,
        cause=str(error),
        effect=error.effect,
        remedy=error.remedy,
        exit_code=error.exit_code,
    )
