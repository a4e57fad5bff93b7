"""What ``papers_page.py`` says of RFcd's table and figures, with the rivals beside it."""

from __future__ import annotations

from markdown_table import table
from paper_verdicts import counted, of_mean, results, verdict

QUARTILES = 1.349
"""How far the quartiles of a normal distribution lie from each other, in standard deviations."""
METHODS = ("RFcd-M b=10", "RFcd-B b=10", "GES union", "PC union", "DirectLiNGAM")
SITES = (3, 5, 7)


def of_rfcd(method: str, variables: str) -> dict:
    """Mean SHD by beam; a seed counts once, though it has three numbers of sites."""
    report = results("rfcd")
    cells = [
        row for row in report["table_1"] if (row["method"], row["d"]) == (method, int(variables))
    ]
    verdicts = []
    for row in cells:
        low, high = row["quartiles"]
        ours = of_mean(row["mean"], (high - low) / QUARTILES, report["seeds"])
        verdicts.append(verdict(row["published"], ours))
    return {
        "theirs": " / ".join(f"{row['published']:.2f}" for row in cells),
        "here": " / ".join(f"{row['mean']:.2f}" for row in cells),
        "verdict": counted(verdicts),
        "script": "rfcd.py",
        "results": ["rfcd.json"],
    }


def rival_table() -> list[str]:
    """Mean normalised SHD with 3, 5 and 7 sites, ours and the rivals'; runs where not all."""
    report = results("rfcd")
    found = {
        (row["setting"], row["d"], row["sites"], row["method"]): row for row in report["figures"]
    }
    rows = []
    for setting, d in dict.fromkeys(key[:2] for key in found):
        shown = []
        for method in METHODS:
            cells = [found.get((setting, d, sites, method)) for sites in SITES]
            words = " / ".join("-" if c is None else f"{c['mean']:.2f}" for c in cells)
            runs = {c["runs"] for c in cells if c} - {report["seeds"]}
            shown.append(f"{words} ({max(runs)} runs)" if runs else words)
        rows.append([setting, d, *shown])
    return table(["sites", "variables", *METHODS], rows)


OF_RFCD = {"rfcd": of_rfcd}
"""What reads ours and theirs, by the first word of ``cells``."""
