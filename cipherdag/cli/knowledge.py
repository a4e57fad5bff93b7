"""Background knowledge on the command line: edges, tiers and files, by the names of columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cipherdag.cli.options import FILE, NEW_FILE, OVERWRITE
from cipherdag.cli.programs.printed import Written, printed
from cipherdag.cli.site import site_command
from cipherdag.errors import ParameterError
from cipherdag.protocol.durable_files import OPEN, write_whole

if TYPE_CHECKING:
    from cipherdag.graphs.knowledge import Knowledge
    from cipherdag.sites.study.site_folder import SiteFolder

EDGES = FORBID, REQUIRE, TIERS = "forbid", "require", "tiers"


def edge_options() -> list[click.Option]:
    """The options that say knowledge without a file of TOML."""
    return [
        click.Option(
            ["--forbid"], nargs=2, multiple=True, metavar="A B",
            help="A is no direct cause of B; may be repeated.",
        ),
        click.Option(
            ["--require"], nargs=2, multiple=True, metavar="A B",
            help="A is a direct cause of B; may be repeated.",
        ),
        click.Option(
            ["--tiers"], metavar="A,B",
            help="A and B, such as age,sex, come before all others; or a CSV of variable and tier.",
        ),
    ]  # fmt: skip


def knowledge_option() -> click.Option:
    """The option for a file of TOML, whose text a saved run holds."""
    return click.Option(
        ["--knowledge"],
        type=FILE,
        help="The same in TOML.",
        callback=lambda *given: text_of(given[2]),
    )


def text_of(path: Path | None) -> str:
    """The text of a file of background knowledge, so that a saved run holds it; else empty."""
    from cipherdag.graphs.knowledge import Knowledge

    text = "" if path is None else _read(path)
    Knowledge.loads(text)
    return text


def with_edges(text: str, options: Mapping[str, Any]) -> str:
    """Knowledge as TOML, with what ``--forbid``, ``--require`` and ``--tiers`` add to it."""
    from cipherdag.graphs.knowledge import Knowledge

    if not any(options.get(each) for each in EDGES):
        return text
    given = Knowledge.loads(text)
    if said := options.get(TIERS):
        if given.tiers:
            raise ParameterError(
                "there are tiers already", remedy="Write all tiers into the file of --tiers."
            )
        given = Knowledge(forbidden=given.forbidden, required=given.required, tiers=_tiers(said))
    edges = {"forbidden": options.get(FORBID, ()), "required": options.get(REQUIRE, ())}
    return given.with_edges(**edges).dumps()


def _tiers(said: str) -> tuple[tuple[str, ...], ...]:
    """The tiers of a CSV; or two, of which the first has the columns that are named."""
    from cipherdag.graphs.knowledge import OTHERS, read_tiers

    if Path(said).exists() or said.endswith(".csv"):
        return read_tiers(_read(Path(said)))
    return tuple(name.strip() for name in said.split(",")), (OTHERS,)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError as error:
        raise ParameterError(
            f"there is no file {path}", remedy="Name a file that is there, or columns: age,sex."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(
            f"{path} cannot be read as text", remedy="Save it as UTF-8, and name the file."
        ) from error


@site_command("knowledge", "no knowledge was written", params=[*edge_options(), knowledge_option()])
@click.option("--out", type=NEW_FILE, required=True, help="File to write, for the coordinator.")
@OVERWRITE
def site_knowledge(
    folder: SiteFolder, knowledge: str, out: Path, *, as_json: bool, **options: Any
) -> None:
    """Write background knowledge, said by this site's names, by number for the coordinator.

    No name of a column is in the file. All sites have the same numbers, and every site reads them
    in the plan before it approves.
    """
    from cipherdag.graphs.knowledge import Knowledge
    from cipherdag.sites.table.schema import Schema

    said: Knowledge = Knowledge.loads(with_edges(knowledge, options))
    if not said.names:
        raise click.UsageError("say an edge or tiers: --forbid, --require, --tiers or --knowledge")
    numbered = said.numbered(Schema.load(folder.schema_path(folder.settings())).names)
    write_whole(out, numbered.dumps(), mode=OPEN)
    lines = [
        f"Wrote {out}, without names. Send it to the coordinator, who gives it to",
        f"  cipherdag coordinator run ALGORITHM --knowledge {out.name}",
    ]
    printed(Written(str(out)), lines, as_json=as_json)
