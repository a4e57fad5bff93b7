"""The tables of `fedpc_tables`, beside what the paper prints (`fedpc_paper.csv`)."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

from fedpc_data import LINEAR, NETWORKS, NONLINEAR
from markdown_table import table

EVIDENCE_COLUMNS = (
    "PC-All", "vote", "vote-code", "weighted_p", "fisher", "pooled-11",
    "pooled",
)  # fmt: skip
RIVAL_COLUMNS = (
    "PC-Avg", "PC-Best", "FedPC-Simple-I", "FedPC-Simple-II", "NOTEARS-Avg", "NOTEARS-ADMM",
    "FedDAG",
)  # fmt: skip
MEASURES = ("shd", "reverse", "extra", "miss", "f1", "tpr", "precision", "seconds")
FAMILIES = {
    "networks": NETWORKS,
    "linear models": LINEAR,
    "non-linear models": NONLINEAR,
    "Sachs": {"sachs"},
}
INTRODUCTIONS = {
    "standing": """Against the published FedPC, in how many data sets and numbers of sites its SHD
is larger than our largest / between our smallest and largest / smaller than our smallest: better /
alike / worse.""",
    "duels": """Against the comparators, in how many data sets and numbers of sites our median SHD
over the samples that both were run on is smaller / equal / larger.""",
    "shd": """SHD of the learnt DAG: median over samples (smallest-largest). `paper` is the
published FedPC on its own sample; `PC-All` has all rows at one place and does not depend on the
sites. A dash: not run, or not printed. Samples: fewest-most of a row.""",
    "f1": """F1 of the learnt DAG, median over the same samples; of `paper` from its recall and
precision.""",
    "shd_cpdag": """SHD of the learnt CPDAG and the CPDAG of the true DAG, median over the same
samples: without the directions that no data tell, which a DAG must choose. The paper does not
print it.""",
    "rivals": """SHD of the comparators, ours: median over samples (smallest-largest); after the
slash what the paper prints. PC-Avg and NOTEARS-Avg are means over the sites' graphs.""",
}
COSTS = ("rounds", "shd_cpdag")


def summary(cases: list[dict]) -> list[dict]:
    """One entry per data set, number of sites and method: medians over the samples."""
    groups: dict[tuple, list[dict]] = {}
    for case in cases:
        groups.setdefault((case["data"], case["sites"], case["method"]), []).append(case)
    return [summarise(group) for _, group in sorted(groups.items())]


def summarise(group: list[dict]) -> dict:
    named = {name: group[0][name] for name in ("data", "sites", "method")}
    done = [case for case in group if "left_out" not in case]
    if not done:
        return named | {"left_out": group[0]["left_out"], "samples": 0}
    costs = [name for name in COSTS if all(name in case for case in done)]
    return named | {
        "samples": len(done),
        "shd_of_samples": {str(case["sample"]): case["shd"] for case in done},
        "shd_min": min(case["shd"] for case in done),
        "shd_max": max(case["shd"] for case in done),
        **{name: median(case[name] for case in done) for name in (*MEASURES, *costs)},
    }


def published() -> dict[tuple[str, int, str], dict[str, float]]:
    """What the paper prints, by (data, sites, algorithm); entries printed as "-" are not there."""
    path = Path(__file__).parent / "fedpc_paper.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["shd"]]
    found = {}
    for row in rows:
        tpr, precision = float(row["tpr"]), float(row["precision"])
        f1 = 2 * tpr * precision / (tpr + precision) if tpr + precision else 0.0
        found[row["data"], int(row["sites"]), row["algorithm"].removesuffix("-KBT")] = {
            "table": row["table"], "shd": float(row["shd"]), "f1": f1,
        }  # fmt: skip
    return found


def markdown(report: dict) -> str:
    """All tables; what has no case is left out."""
    found = report["cases"]
    ours = {(s["data"], s["sites"], s["method"]): s for s in found}
    paper = published()
    order = list(dict.fromkeys(data for data, _, _ in paper))
    places = sorted(
        {(s["data"], s["sites"]) for s in found if s["method"] != "PC-All"},
        key=lambda place: (order.index(place[0]), place[1]),
    )
    tables = {
        "standing": _standing_table(places, ours, paper),
        "duels": _duel_table(places, ours),
        "shd": _evidence_table(places, ours, paper, "shd"),
        "f1": _evidence_table(places, ours, paper, "f1"),
        "shd_cpdag": _evidence_table(places, ours, {}, "shd_cpdag"),
        "rivals": _rivals_table(places, ours, paper),
    }
    return "\n".join(
        line for name, own in tables.items() for line in (INTRODUCTIONS[name], "", *own, "")
    )


def _standing_table(places, ours, paper) -> list[str]:
    rows = []
    for family, members in FAMILIES.items():
        cells = []
        for method in EVIDENCE_COLUMNS:
            counts = [0, 0, 0]
            for data, sites in places:
                own = ours.get((data, 1 if method == "PC-All" else sites, method))
                printed = paper.get((data, sites, "FedPC"))
                if data in members and own and own["samples"] and printed:
                    smaller = printed["shd"] < own["shd_min"]
                    counts[2 if smaller else int(printed["shd"] <= own["shd_max"])] += 1
            cells.append(_counted(counts))
        rows.append([family, *cells])
    return table(["data", *EVIDENCE_COLUMNS], rows)


def _duel_table(places, ours) -> list[str]:
    methods = [method for method in EVIDENCE_COLUMNS if method != "PC-All"]
    rows = []
    for rival in RIVAL_COLUMNS:
        cells = []
        for method in methods:
            counts = [0, 0, 0]
            for place in places:
                both = [ours.get((*place, name), {}) for name in (method, rival)]
                one, two = (own.get("shd_of_samples", {}) for own in both)
                if shared := one.keys() & two.keys():
                    apart = median(one[s] for s in shared) - median(two[s] for s in shared)
                    counts[int(apart >= 0) + int(apart > 0)] += 1
            cells.append(_counted(counts))
        rows.append([rival, *cells])
    return table(["comparator", *methods], rows)


def _evidence_table(places, ours, paper, measure) -> list[str]:
    rows = []
    for data, sites in places:
        row = [ours.get((data, 1 if m == "PC-All" else sites, m)) for m in EVIDENCE_COLUMNS]
        if any(row[1:]):
            printed = _number(paper.get((data, sites, "FedPC")), measure)
            shown = [_cell(own, measure) for own in row]
            rows.append([data, sites, printed, *shown, _samples(row)])
    return table(["data", "sites", "paper", *EVIDENCE_COLUMNS, "samples"], rows)


def _rivals_table(places, ours, paper) -> list[str]:
    rows = []
    for data, sites in places:
        row = [ours.get((data, sites, m)) for m in RIVAL_COLUMNS]
        if any(row):
            shown = [
                f"{_cell(own, 'shd')} / {_number(paper.get((data, sites, m)), 'shd')}"
                for own, m in zip(row, RIVAL_COLUMNS, strict=True)
            ]
            rows.append([data, sites, *shown, _samples(row)])
    return table(["data", "sites", *RIVAL_COLUMNS, "samples"], rows)


def _counted(counts: list[int]) -> str:
    return " / ".join(map(str, counts)) if any(counts) else "-"


def _samples(row) -> str:
    """Fewest and most samples of a row."""
    counts = sorted({own["samples"] for own in row if own})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"


def _cell(own, measure) -> str:
    if own is None:
        return "-"
    if "left_out" in own:
        return own["left_out"]
    if measure == "f1":
        return f"{own['f1']:.2f}"
    if measure == "shd_cpdag":
        return f"{own['shd_cpdag']:.3g}" if "shd_cpdag" in own else "-"
    return f"{own['shd']:.3g} ({own['shd_min']:.3g}-{own['shd_max']:.3g})"


def _number(printed, measure) -> str:
    if printed is None:
        return "-"
    return f"{printed['f1']:.2f}" if measure == "f1" else f"{printed['shd']:.4g}"
