"""The tables of `calibration`: one per kind of columns and way that sites differ."""

from __future__ import annotations

from itertools import groupby

from markdown_table import table

TITLES = {
    "alike": "sites alike",
    "marginals": "marginals of every site's own",
    "mechanisms": "mechanisms of every site's own",
    "power": "power",
}
SILENT = 0.01
LEVEL = "0.01"
WORST = 1.5


def markdown(report: dict) -> str:
    """Rates at level 0.01 by method and cell; those beyond 1.5 times the level are bold."""
    cases = sorted(report["cases"], key=lambda own: (own["columns"], own["world"]))
    lines = []
    for (columns, world), own in groupby(cases, key=lambda own: (own["columns"], own["world"])):
        lines += ["", f"**{columns.capitalize()}, {TITLES[world]}** (level {LEVEL})", ""]
        lines += _table(list(own), power=world == "power")
    return "\n".join(lines[1:]) + "\n"


def _table(cases: list[dict], *, power: bool) -> list[str]:
    heads = list(dict.fromkeys((c["given"], c["sites"], c["rows"]) for c in cases))
    methods = list(dict.fromkeys(c["method"] for c in cases))
    found = {(c["method"], c["given"], c["sites"], c["rows"]): c for c in cases}
    rows = [
        [method, *(_shown(found.get((method, *head)), power=power) for head in heads)]
        for method in methods
    ]
    return table(["evidence, test", *(f"{g}, {s} x {n}" for g, s, n in heads)], rows)


def _shown(case: dict | None, *, power: bool) -> str:
    if case is None:
        return ""
    if case["done"] < SILENT:
        return "silent"
    rate = case["rates"][LEVEL]
    # of the tests done, so many may be over by chance alone
    spread = (float(LEVEL) / max(case["tests"] * case["done"], 1.0)) ** 0.5
    over = not power and rate > WORST * float(LEVEL) + 2.0 * spread
    return f"**{rate:.3f}**" if over else f"{rate:.3f}"
