"""What ``papers_page.py`` says of Fed-CD's table and figures, with ENCO on all rows beside it."""

from __future__ import annotations

from statistics import mean, median

import fedcd
from markdown_table import table
from paper_verdicts import counted, duels, of_values, results, verdict

from cipherdag import FedCD

COLUMNS = {2: "FED-CD (2-clients)", 4: "FED-CD (4-clients)", 0: "ENCO"}
SMALL = ("fedcd", "fedcd_10")
NETWORKS = "fedcd_networks"


def of_fedcd(structure: str) -> dict:
    """SHD with 2 and 4 sites and of ENCO on all rows, and after as many rounds as the paper's."""
    theirs = printed(structure)
    here, verdicts = cells(structure, "fedcd_20", theirs)
    longer = [
        case["shd"] for case in results("fedcd_20_long")["cases"] if case["structure"] == structure
    ]
    if longer:
        here = f"{here}; 10 rounds, 2 sites: {median(longer):g} ({len(longer)})"
    return {
        "theirs": centres(theirs),
        "here": here,
        "verdict": counted(verdicts),
        "script": "fedcd.py",
        "results": ["fedcd_20.json", *["fedcd_20_long.json"] * bool(longer)],
    }


def of_network(name: str) -> dict:
    """The same of a published network with its tables; drawn mechanisms are another task."""
    theirs = printed(name)
    here, verdicts = cells(f"{name}.bif", NETWORKS, theirs)
    here = here if verdicts else "not run"
    drawn, _ = cells(name, "fedcd_20", theirs)
    here += unrun(f"{name}.bif", theirs)
    reason = ""
    if "worse" in verdicts:
        reason = (
            "; not reproduced: training is too short for tables of rare events, for ENCO on "
            "all rows as well"
        )
    return {
        "theirs": centres(theirs),
        "here": f"{here}; drawn: {drawn}",
        "verdict": f"{counted(verdicts) or 'not run'}{reason}",
        "script": "fedcd.py",
        "results": [f"{NETWORKS}.json", "fedcd_20.json"],
    }


def printed(structure: str) -> dict[int, str]:
    """The paper's figures by number of sites; 0 is ENCO on all rows."""
    column = [name.lower() for name in fedcd.PAPER_COLUMNS].index(structure)
    return {sites: fedcd.PAPER[name][column] for sites, name in COLUMNS.items()}


def unrun(structure: str, theirs: dict[int, str]) -> str:
    """What the numbers of sites that did not run would take: each site trains as ENCO does."""
    cases = [case for case in results(NETWORKS)["cases"] if case["structure"] == structure]
    alone = [case["cpu_s"] for case in cases if case["method"] == "central"]
    left = [sites for sites in theirs if sites not in {case["sites"] for case in cases}]
    if not left or not alone:
        return ""
    times = [f"{sites * median(alone) / 60.0:.1f}" for sites in left]
    return f" (not run: {' and '.join(times)} processor minutes a seed)"


def centres(theirs: dict[int, str]) -> str:
    """The means alone."""
    return " / ".join(words.split(" ± ")[0] for words in theirs.values())


def cells(structure: str, report: str, theirs: dict[int, str]) -> tuple[str, list[str]]:
    """Medians with intervals and numbers of seeds, and the verdicts."""
    here, verdicts = [], []
    for sites, words in theirs.items():
        found = [
            case["shd"]
            for case in results(report)["cases"]
            if (case["structure"], case["sites"]) == (structure, sites)
        ]
        if not found:
            here.append("-")
            continue
        ours = of_values(found)
        spread = f" [{ours.low:g}, {ours.high:g}]" if ours.low < ours.high else ""
        here.append(f"{ours.centre:g}{spread} ({ours.samples})")
        verdicts.append(verdict(float(words.split(" ± ")[0]), ours))
    return " / ".join(here), verdicts


def rival_table() -> list[str]:
    """Fed-CD with 2 sites against every rival on all rows: graphs won, tied and lost."""
    rows = []
    for rival, method in {
        "ENCO": "central",
        "GIES": "gies",
        "IGSP": "igsp",
        "DCDI": "dcdi",
    }.items():
        pairs = [
            (float(a.split(" ± ")[0]), float(b.split(" ± ")[0]))
            for a, b in zip(fedcd.PAPER[COLUMNS[2]], fedcd.PAPER[rival], strict=True)
        ]
        files = ("fedcd_20", NETWORKS) if rival == "ENCO" else SMALL
        same = [pair for name in files for pair in graph_pairs(results(name)["cases"], method)]
        places = "20 variables and networks" if rival == "ENCO" else "8 and 10 variables"
        hours = median(c["cpu_s"] for c in results("dcdi")["cases"]) * 7 * 20 / 3600.0
        left = f"not run: over {hours:.1f} processor hours, by the time with 10 numbers (`dcdi`)"
        rows.append([rival, duels(pairs), f"{duels(same)} ({places})" if same else left])
    return table(
        ["against, on all rows", "printed: Fed-CD, 2 sites", "here: Fed-CD, 2 sites"], rows
    )


def graph_pairs(cases: list[dict], method: str) -> list[tuple[float, float]]:
    """SHD of proximity with 2 sites and of a method on all rows, on the same data."""
    theirs = {(c["structure"], c["seed"]): c["shd"] for c in cases if c["method"] == method}
    return [
        (c["shd"], theirs[key])
        for c in cases
        if (c["method"], c["sites"]) == ("proximity", 2)
        and (key := (c["structure"], c["seed"])) in theirs
    ]


def of_length() -> dict:
    """What Table 1's graphs of 20 variables would take as long as the paper trains."""
    speed, seeds, structures = results("enco_speed"), 20, 4
    default = FedCD()
    epoch = min(run["cpu_s"] for run in speed["runs"])
    hours = epoch * default.training.epochs * default.rounds * structures * seeds / 3600.0
    return {
        "here": f"not run: by the time of an epoch {2 * hours:.0f} processor hours with 2 sites "
        f"and {4 * hours:.0f} with 4",
        "verdict": "not run",
        "script": "enco_speed.py",
        "results": ["enco_speed.json"],
    }


def of_even() -> dict:
    """Figures 2 and 6: what they would take by the time of the runs with 10 variables."""
    seconds = median(
        case["cpu_s"]
        for case in results("fedcd_10")["cases"]
        if (case["method"], case["sites"]) == ("proximity", 2)
    )
    seeds, sizes = 20, 5
    return {
        "here": f"not run: over {seconds * sizes * seeds / 60.0:.0f} minutes, by the time with 10 "
        "variables",
        "verdict": "not run",
        "script": "fedcd.py",
        "results": ["fedcd_10.json"],
    }


def of_naive() -> dict:
    """Proximity beside naive averages with 5 sites, after the first round and the last."""
    rounds = {"the first round": 0, "the last": -1}
    counts = {
        words: [
            sum(number)
            for number in zip(
                *(fedcd.beside_naive(results(n)["cases"], 5, k) for n in SMALL), strict=True
            )
        ]
        for words, k in rounds.items()
    }
    here = [f"after {words} {b} / {a} / {w}" for words, (b, a, w) in counts.items()]
    total = sum(counts["the last"])
    return {
        "here": f"proximity is better / as good / worse in {total} graphs: {', '.join(here)}",
        "verdict": "in part: each round starts from the last aggregate, and naive catches up",
        "script": "fedcd.py",
        "results": [f"{name}.json" for name in SMALL],
    }


def of_entropy() -> dict:
    """Average edge entropy by round, over all runs of 5 sites."""
    cases = [
        c for c in results("fedcd_10")["cases"] if (c["sites"], c["method"]) == (5, "proximity")
    ]
    rounds = zip(*(pad(case["entropies"], 3) for case in cases), strict=True)
    ends = sum(case["entropies"][-1] == 0.0 for case in cases)
    bits = ", ".join(f"{mean(values):.3f}" for values in rounds)
    return {
        "here": f"5 sites: {bits} bits after rounds 1 to 3, 0 in {ends} of {len(cases)}",
        "verdict": "in part: 3 rounds are too few for 0",
        "script": "fedcd.py",
        "results": ["fedcd_10.json"],
    }


def pad(values: list[float], length: int) -> list[float]:
    """A run that all sites agreed on early stays there."""
    return [*values, *[values[-1]] * (length - len(values))]


OF_FEDCD = {
    "fedcd": of_fedcd,
    "network": of_network,
    "length": of_length,
    "even": of_even,
    "naive": of_naive,
    "entropy": of_entropy,
}
"""What reads ours and theirs, by the first word of ``cells``."""
