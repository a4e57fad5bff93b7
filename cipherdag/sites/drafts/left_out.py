"""Why a draft leaves columns out of a run: said again when somebody runs with it."""

import json
import re

from cipherdag.sites.table.names import normalise_name
from cipherdag.sites.table.schema import Schema

UNDECIDED = "until somebody does what stands behind DECIDE in the schema"
_TABLE = re.compile(r"((?:^#[^\n]*\n)+)^\[columns\.([^\n]+)\][^\n]*$", re.MULTILINE)
_WHY = re.compile(r"(DECIDE|Ignored): (.*?[.?])(?= |$)")


def left_out(schema: Schema, text: str = "") -> dict[str, list[str]]:
    """The ignored columns that a draft gave a reason for, by this reason.

    Args:
        schema: With its comments, if it is a draft of this process.
        text: The file it was read from, as reading leaves comments out.
    """
    comments = {column.name: column.comment for column in schema.columns} | _comments(text)
    reasons: dict[str, list[str]] = {}
    for name in schema.ignored:
        for mark, why in _WHY.findall(comments.get(name, ""))[:1]:
            said = f"{UNDECIDED}: {why}" if mark == "DECIDE" else f"since {why}"
            reasons.setdefault(said.rstrip("."), []).append(name)
    return reasons


def _comments(text: str) -> dict[str, str]:
    """What stands above each column of a schema, by name."""
    comments = {}
    for comment, key in _TABLE.findall(text.replace("\r\n", "\n")):
        name = json.loads(key) if key.startswith('"') else key
        lines = (line.removeprefix("#").strip() for line in comment.splitlines())
        comments[normalise_name(name)] = " ".join(lines)
    return comments
