"""What ``papers_page.py`` says of FedPC's tables and figures: its rivals in the same tables."""

from __future__ import annotations

import math
from statistics import median

import numpy as np
from fedpc_data import LINEAR, NETWORKS, NONLINEAR, VARIABLES
from fedpc_report import published
from markdown_table import table
from paper_verdicts import FEWEST, SIGNS, Ranks, counted, duels, of_values, ranks, results, verdict

SITES = (3, 5, 10, 15)
RIVALS = ("PC-Best", "PC-Avg", "FedPC-Simple-I", "FedPC-Simple-II", "NOTEARS-ADMM", "NOTEARS-Avg")
RANKED = ("vote", "PC-Best", "PC-Avg", "FedPC-Simple-I", "FedPC-Simple-II")
SHOWN = ("vote", "best", "PC-All")
UNPRINTED = ("best", "PC-All")
NAMES = {
    "vote": "votes",
    "best": "`pooled`",
    "FedPC-Simple-I": "Simple-I",
    "FedPC-Simple-II": "Simple-II",
}
SUMMED = {"script": "fedpc_tables.py", "results": ["fedpc_tables.json"]}
Cells = dict[tuple[str, int, str], dict]


def our_cells() -> Cells:
    """Our cells that ran, by (data, sites, method); PC-All stands with every number of sites."""
    found = {}
    for case in results("fedpc_tables")["cases"]:
        if case["samples"]:
            for sites in SITES if case["method"] == "PC-All" else (case["sites"],):
                found[case["data"], sites, case["method"]] = case
    for data in {data for data, _, _ in found}:
        for sites in SITES:
            best = found.get((data, sites, "pooled")) or found.get((data, sites, "fisher"))
            found[data, sites, "best"] = best
    return found


def printed_cells() -> dict[tuple[str, int, str], float]:
    """The paper's SHD by (data, sites, method)."""
    found = {}
    for (data, sites, name), row in published().items():
        found[data, sites, "vote" if name == "FedPC" else name] = row["shd"]
    return found


def shd_table() -> list[str]:
    """A row a data set: as printed, and below our medians with the verdict on each."""
    ours, theirs = our_cells(), printed_cells()
    number = {data: row["table"] for (data, _, _), row in published().items()}
    rows, past = [], older()
    for data, roman in number.items():
        cells = []
        for method in SHOWN:
            base = [theirs.get((data, s, "vote" if method == "best" else method)) for s in SITES]
            here = [
                signed(ours.get((data, s, method)), printed)
                for s, printed in zip(SITES, base, strict=True)
            ]
            above = "" if method in UNPRINTED else f"{joined([plain(x) for x in base])}<br>"
            cells.append(f"{above}{joined(here)}")
        rows.append([f"{roman}<br>{data}{'*' if data in past else ''}", *cells])
    heads = [NAMES.get(m, m) for m in SHOWN]
    return table(["table", *heads], rows)


def joined(words: list[str]) -> str:
    """One word where all are the same."""
    return words[0] if len(set(words)) == 1 else "/".join(words)


def signed(case: dict | None, theirs: float | None) -> str:
    """Our median, and the sign of the verdict where the paper has a figure."""
    if case is None:
        return "-"
    sign = "" if theirs is None else SIGNS[verdict(theirs, estimate(case))]
    return f"{plain(case['shd'])}{sign}"


def estimate(case: dict):
    """Median and interval over a cell's samples."""
    return of_values(list(case["shd_of_samples"].values()))


def rival_table() -> list[str]:
    """FedPC against every rival: cells won, tied and lost in print and here, and the time."""
    ours, theirs = our_cells(), printed_cells()
    rows = []
    for rival in RIVALS:
        places = [key[:2] for key in theirs if key[2] == rival]
        printed = duels([(theirs[*p, "vote"], theirs[*p, rival]) for p in places])
        shown = []
        for method in ("vote", "best"):
            pairs = [pair for p in places_of(ours) if (pair := shared(ours, p, method, rival))]
            shown.append(duels(pairs))
        times = ratios(ours, rival)
        seconds = f"{median(times):.2g} in {len(times)}"
        rows.append([NAMES.get(rival, rival), printed, *shown, seconds])
    heads = ["against", "printed: FedPC", "here: votes", "here: `pooled`", "time"]
    return table(heads, rows)


def ratios(ours: Cells, rival: str) -> list[float]:
    """Seconds of votes over those of a rival, of all cells that both ran in."""
    return [
        ours[*p, "vote"]["seconds"] / ours[*p, rival]["seconds"]
        for p in places_of(ours)
        if (*p, rival) in ours
    ]


def places_of(ours: Cells) -> list[tuple[str, int]]:
    """Data and number of sites of all cells of votes."""
    return [key[:2] for key in ours if key[2] == "vote"]


def shared(ours: Cells, place, method: str, rival: str) -> tuple[float, float] | None:
    """Both medians over the samples that both ran on; None where there is none."""
    one, two = ((ours.get((*place, m)) or {}).get("shd_of_samples", {}) for m in (method, rival))
    samples = one.keys() & two.keys()
    return (median(one[s] for s in samples), median(two[s] for s in samples)) if samples else None


def ranked() -> dict[str, tuple[Ranks, Ranks]]:
    """By family of data, ranks of the methods that ran on the same cells: printed and here."""
    ours, theirs = our_cells(), printed_cells()
    found = {}
    for family, members in {"linear models": LINEAR, "networks": NETWORKS}.items():
        cells = [
            p for p in places_of(ours) if p[0] in members
            and all(ours.get((*p, m), {"samples": 0})["samples"] >= FEWEST for m in RANKED)
        ]  # fmt: skip
        found[family] = (
            ranks({m: [theirs[*p, m] for p in cells] for m in RANKED}),
            ranks({m: [ours[*p, m]["shd"] for p in cells] for m in RANKED}),
        )
    return found


def of_friedman() -> dict:
    """Figure 5 of the methods that ran: mean ranks, the critical difference, who is first."""
    firsts, words = set(), []
    for family, (_, own) in ranked().items():
        first = min(own.mean, key=own.mean.get)
        firsts.add(first)
        far = ", ".join(NAMES.get(m, m) for m in own.differ("vote")) or "none"
        words.append(
            f"{family}: least {NAMES.get(first, first)} {own.mean[first]:.2f}, votes "
            f"{own.mean['vote']:.2f} of {len(RANKED)}, unlike {far} "
            f"({own.cells} cells)"
        )
    return SUMMED | {
        "here": f"mean ranks and Nemenyi's test on {'; on '.join(words)}",
        "verdict": "reproduced" if firsts == {"vote"} else "not reproduced: as with rivals",
    }


def of_tables() -> dict:
    """All cells of Tables IV to XV by the one rule, and by medians alone."""
    ours, theirs = our_cells(), printed_cells()
    cells = [key for key in theirs if key[2] == "vote"]
    votes = [verdict(theirs[key], estimate(ours[key])) for key in cells]
    best = [verdict(theirs[key], estimate(ours[*key[:2], "best"])) for key in cells]
    medians = duels([(ours[key]["shd"], theirs[key]) for key in cells])
    spread = ours["pigs", 10, "vote"]
    return SUMMED | {
        "theirs": f"{len(cells)} cells of one sample each",
        "here": f"votes: {counted(votes)}; by medians alone {medians}; "
        f"`pooled`: {counted(best)}. Intervals may be wide: pigs with 10 sites, "
        f"{plain(spread['shd_min'])} to {plain(spread['shd_max'])}",
        "verdict": "not reproduced: samples are drawn and split anew (next row: authors' files)",
    }


def of_rivals() -> dict:
    """Why FedPC's lead over its rivals is not that of the paper."""
    ours, theirs = our_cells(), printed_cells()
    stood = {
        m: [verdict(theirs[*p, m], estimate(ours[*p, m]))
            for p in places_of(ours) if (*p, m) in ours and (*p, m) in theirs]
        for m in ("PC-Best", "FedPC-Simple-I")
    }  # fmt: skip
    return SUMMED | {
        "theirs": "FedPC is ahead of each",
        "here": "wins above; against its printed figure "
        + "; ".join(f"{NAMES.get(m, m)} {counted(found)}" for m, found in stood.items()),
        "verdict": "not reproduced: both are made of our PC, which is better than theirs on alarm, "
        "insurance and large linear models",
    }


def of_authors() -> dict:
    """The presets on the data that come with the authors' program."""
    cases = results("as_published")["cases"]
    printed, found = [], []
    for data in dict.fromkeys(case["data"] for case in cases):
        of_data = [case for case in cases if case["data"] == data]
        printed.append(f"{data} {' / '.join(plain(c['printed']) for c in of_data)}")
        shd = (plain(c["as published, code"]["shd"]) for c in of_data)
        found.append(f"{data} {' / '.join(shd)}")
    gaps = [abs(c["as published, code"]["shd"] - c["printed"]) for c in cases]
    return {
        "theirs": "; ".join(printed),
        "here": f"by its program's rules {'; '.join(found)}",
        "verdict": f"reproduced: the same figure in {gaps.count(0)} of {len(gaps)} cells, "
        f"{max(gaps):.0f} away at most; one sample",
        "script": "as_published.py",
        "results": ["as_published.json"],
    }


def run_again() -> dict[tuple[str, str], tuple[int, int]]:
    """By data and method, samples that the present program ran again: with the stored SHD, all."""
    stored = our_cells()
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for case in results("fedpc_again")["cases"]:
        data, method = case["data"], case["method"]
        before = stored[data, SITES[0] if method == "PC-All" else case["sites"], method]
        same = [before["shd_of_samples"][k] == shd for k, shd in case["shd_of_samples"].items()]
        equal, ran = found.get((data, method), (0, 0))
        found[data, method] = equal + sum(same), ran + len(same)
    return found


def older() -> set[str]:
    """Data with a stored SHD that the present program does not have."""
    return {data for (data, _), (equal, ran) in run_again().items() if equal < ran}


def of_again() -> dict:
    """What of the stored figures the present program has again."""
    counts: dict[str, list[tuple[int, int]]] = {}
    for (data, _), found in run_again().items():
        counts.setdefault(data, []).append(found)
    sums = {data: [sum(k) for k in zip(*found, strict=True)] for data, found in counts.items()}
    old = " and ".join(sorted(older()))
    return {
        "theirs": "none",
        "here": "samples with the stored SHD: "
        + ", ".join(f"{data} {equal} of {ran}" for data, (equal, ran) in sums.items()),
        "verdict": f"in part: {old} is older than the present program; pigs and nonlinear-20 wait"
        if old
        else "reproduced",
        "script": "fedpc_tables.py",
        "results": ["fedpc_again.json", "fedpc_tables.json"],
    }


def of_time() -> dict:
    """Seconds of votes over those of the rivals that ran in the same run."""
    ours = our_cells()
    times = {rival: median(ratios(ours, rival)) for rival in RIVALS}
    peer = results("fedpc_speed")["peers"]["runs"]
    return {
        "theirs": "pictures: a little slower than PC-Avg, PC-Best and Simple, faster than NOTEARS",
        "here": f"votes take {times['PC-Avg']:.2g} times PC-Avg; in another run ten sites take "
        f"{1.0 / peer['causal-learn']['times_ours']:.2g} of causal-learn's time on all rows",
        "verdict": "in part: the order is the same, not *a little*: sites search together",
        "script": "fedpc_tables.py",
        "results": ["fedpc_tables.json", "fedpc_speed.json"],
    }


def of_missing() -> dict:
    """The cells of rivals that did not run, and their time by what ran on fewer variables."""
    ours, theirs = our_cells(), printed_cells()
    words, unmeasured, total = [], [], 0.0
    for method in (*RIVALS, "FedDAG", "NOTEARS-MLP-ADMM"):
        left = [key[0] for key in theirs if key[2] == method and key not in ours]
        if not left:
            continue
        limits = {
            case["data"]: float(case["left_out"].split()[-2])
            for case in results("fedpc_tables")["cases"]
            if case["method"] == method and "left_out" in case
        }
        ran = [key for key in ours if key[2] == method and key[0] not in NONLINEAR]
        growth = np.poly1d([0.0, math.log(max(limits.values(), default=1.0))])
        if ran:
            variables = [math.log(VARIABLES[data]) for data, _, _ in ran]
            growth = np.poly1d(
                np.polyfit(variables, [math.log(ours[key]["seconds"]) for key in ran], 1)
            )
        seconds = [limits.get(d) or math.exp(growth(math.log(VARIABLES[d]))) for d in left]
        words.append(f"{len(left)} of {NAMES.get(method, method)}")
        if ran or limits:
            total += 5 * sum(seconds) / 60
        else:
            unmeasured.append(method)
    return SUMMED | {
        "theirs": "printed",
        "here": f"not run: cells {', '.join(words)}; five samples take over {total:.0f} minutes by "
        f"the growth of those that ran, without {', '.join(unmeasured)}",
        "verdict": "not run",
    }


def of_layers() -> dict:
    """Figure 7: on how many sets the largest conditioning sets took no edge."""
    cases = results("fedpc_figures")["cases"]
    settled = {size: sum(c["edges"][size] == c["edges"][-1] for c in cases) for size in (2, 3)}
    return {
        "here": f"constant from sets of 2 on in {settled[2]} of {len(cases)} data sets, of 3 on in "
        f"{settled[3]}",
        "verdict": "reproduced" if settled[3] == len(cases) else "in part",
        "script": "fedpc_figures.py",
        "results": ["fedpc_figures.json"],
    }


def of_shares() -> dict:
    """Figure 8: on how many sets 30 % is the share, or one of those, of the least SHD."""
    from fedpc_figures import SHARES

    cases = results("fedpc_figures")["cases"]
    at_30 = sum(c["shd"][SHARES.index(0.3)] == min(c["shd"]) for c in cases)
    return {
        "here": f"30 % is best, or among the best, on {at_30} of {len(cases)}",
        "verdict": "reproduced" if 2 * at_30 > len(cases) else "in part",
        "script": "fedpc_figures.py",
        "results": ["fedpc_figures.json"],
    }


def plain(value: float | None) -> str:
    """A whole number, or one digit after the point; a dash for none."""
    return "-" if value is None else f"{value:.1f}".removesuffix(".0")


OF_FEDPC = {
    "fedpc-tables": of_tables,
    "fedpc-rivals": of_rivals,
    "fedpc-authors": of_authors,
    "fedpc-again": of_again,
    "fedpc-time": of_time,
    "fedpc-friedman": of_friedman,
    "fedpc-missing": of_missing,
    "layers": of_layers,
    "shares": of_shares,
}
"""What reads ours and theirs, by the first word of ``cells``."""
