"""Writes ``docs/reference/json.md`` from the types of what commands print with ``--json``.

python docs/json_page.py
"""

from __future__ import annotations

import json
from pathlib import Path

from json_schema import schema

PAGE = Path(__file__).parent / "reference" / "json.md"


def page() -> str:
    """The page's text."""
    lines = [
        "# JSON of commands",
        "",
        "Every command that comes to a result prints JSON with `--json`. Runs, `audit show` and",
        "`site releases` print one value a line, all others one value. A failure is one line on",
        "standard error, under `failure`. A later version may add fields. Within one version none",
        "is renamed or taken away.",
        "",
        "This is the schema ([JSON Schema](https://json-schema.org), draft 2020-12) by command:",
        "",
        "```json",
        json.dumps(schema(), indent=1),
        "```",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
