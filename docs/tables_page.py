"""Writes ``docs/reference/tables.md`` from the tables that the kinds of findings declare.

python docs/tables_page.py
"""

from __future__ import annotations

from pathlib import Path

from cipherdag.findings.finding import Finding

PAGE = Path(__file__).parent / "reference" / "tables.md"


def page() -> str:
    """The page's text."""
    lines = [
        "# Tables of results",
        "",
        '`result.table("edges")` is a DataFrame, and `edges.csv` in the folder of a result has the',
        "same rows. A number that is not known is NaN, and an empty field of the file.",
    ]
    for kind in Finding.kinds().values():
        lines += ["", f"## {kind.__name__} (`{kind.kind}`)"]
        for table in kind.tables:
            file = "In Python only." if table.saved == "never" else f"In `{table.name}.csv`."
            lines += ["", f"### `{table.name}`", "", f"{table.doc} {file}", ""]
            lines += ["| column | type | |", "|---|---|---|"]
            lines += [
                f"| `{own.name}` | {own.type.__name__} | {own.doc} |" for own in table.columns
            ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
