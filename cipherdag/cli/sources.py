"""The files of ``run``: named one by one, as a pattern, or as the folder that holds them."""

from __future__ import annotations

import glob
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

TWO_SITES = (
    "There are two sites: a sum over both would tell each the other's part, so only bits of tests "
    "can be opened, and each site learns the number of rows of the other."
)
"""What two sites mean for privacy, said before a run over them."""
_PATTERN = frozenset("*?[")
_TEXT_ENDINGS = (".csv", ".csv.gz", ".tsv")


def source_files() -> click.Argument:
    """The argument that takes files, folders and patterns, and hands on the files."""
    return click.Argument(
        ["files"],
        nargs=-1,
        required=True,
        type=click.Path(path_type=Path),
        callback=lambda _context, _argument, given: [
            file for each in given for file in _files_of(each)
        ],
    )


def is_source(text: str) -> bool:
    """True if a word names something that exists, or is a pattern of names."""
    return Path(text).exists() or bool(_PATTERN.intersection(text))


def _files_of(given: Path) -> Sequence[Path]:
    if given.is_dir():
        return _tables_in(given)
    if given.exists():
        return [given]
    if not _PATTERN.intersection(str(given)):
        raise click.BadParameter(f"there is no file '{given}'")
    files = [Path(each) for each in sorted(glob.glob(str(given))) if Path(each).is_file()]  # noqa: PTH207
    if not files:
        raise click.BadParameter(f"no file has a name like '{given}'")
    return files


def _tables_in(folder: Path) -> Sequence[Path]:
    """The tables of a folder by name; a file that a .toml describes counts as that .toml."""
    if (folder / "result.json").exists():
        raise click.BadParameter(
            f"{folder} holds a result, not tables; repeat it by `cipherdag repeat {folder}`"
        )
    named = dict(_named_sources(folder))
    described = {file for file in named.values() if file is not None}
    tables = [
        file
        for file in sorted(folder.iterdir())
        if file in named or (_is_table(file) and file not in described)
    ]
    if not tables:
        from cipherdag.sites.table.reading import READABLE

        raise click.BadParameter(f"{folder} holds no table: {READABLE}")
    return tables


def _named_sources(folder: Path) -> Iterator[tuple[Path, Path | None]]:
    """Every .toml that names a file or a database, with the file."""
    for path in sorted(folder.glob("*.toml")):
        try:
            table: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue  # no source: a schema or a note that somebody is still writing
        if isinstance(file := table.get("file"), str):
            yield path, folder / file
        elif "address" in table:
            yield path, None


def _is_table(file: Path) -> bool:
    from cipherdag.sites.table.reading import SOURCES

    named = {ending for source in SOURCES for ending in (source.suffix, *source.endings)}
    endings = tuple(sorted({*_TEXT_ENDINGS, *named} - {"", ".toml"}))
    return file.is_file() and not file.name.startswith(".") and file.name.lower().endswith(endings)
