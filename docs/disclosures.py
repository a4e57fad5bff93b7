"""Writes into README and pages what runs disclose, as algorithms declare it.

    python docs/disclosures.py [--check]

Between the marks of a page stands what its function returns. With ``--check`` nothing is written,
and it ends with 1 where a page says something else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path

import click

from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.algorithms.describe.algorithm import Describe
from cipherdag.algorithms.effect.algorithm import Effect
from cipherdag.algorithms.fedboss.algorithm import FedBOSS
from cipherdag.algorithms.fedcd.algorithm import Averaging, FedCD
from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
from cipherdag.algorithms.fedfci.algorithm import FedFCI
from cipherdag.algorithms.fedpc.algorithm import FedPC, Voting
from cipherdag.algorithms.registry import make_algorithm
from cipherdag.algorithms.rfcd.algorithm import RFcd
from cipherdag.algorithms.survival.algorithm import Survival
from cipherdag.questions.disclosure import (
    Disclosure,
    Precision,
    Quantity,
    joined,
    sentences,
    sums,
)
from cipherdag.questions.question import Resampled
from cipherdag.sites.record.ledger import SAME_ROWS

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- disclosures -->\n", "<!-- end of disclosures -->"
SUMS = {"reveal": "sums"}
(CATEGORIES,) = sums(Quantity.CATEGORIES)
BY_BITS = (FedPC(), FedFCI(), make_algorithm("graphcheck", {}))
BY_REVEAL = tuple(FedCMFS(reveal=each) for each in ("bits", "sums"))
BY_OBJECTIVE = tuple(RFcd(objective=each) for each in ("graph", "nodewise", "sum"))
BY_AGGREGATION = tuple(
    FedCD(averaging=Averaging(aggregation=each)) for each in ("proximity", "naive")
)


VOTES = tuple(
    FedPC(evidence="vote", voting=Voting(sepset=sepset), reveal=reveal)
    for sepset, reveal in (("max", "bits"), ("max", "sums"), ("mean", "sums"), ("vote", "sums"))
)
GROUPS: Mapping[str, tuple[Algorithm, ...]] = {
    "FedPC, FedFCI, GraphCheck, FedCMFS": (*BY_BITS, FedCMFS()),
    'the same with `reveal="sums"`, `pooled`, `glm`, `vote`, `fisher` or `weighted_p`': (
        make_algorithm("graphcheck", SUMS),
        *(FedPC(**SUMS, evidence=each) for each in ("stratified", "pooled", "glm")),
        *VOTES,
        *(FedPC(**SUMS, evidence=each) for each in ("fisher", "weighted_p")),
        BY_REVEAL[1],
    ),
    "FedBOSS, also without `within_sites`": (FedBOSS(), FedBOSS(within_sites=False)),
    "RFcd, also `nodewise`, `sum`": BY_OBJECTIVE,
    "Fed-CD; the number of rows with `naive` averaging alone": BY_AGGREGATION,
    "Describe, Survival, Effect": (
        Describe(),
        *(Survival(adjust=("x",), site_effect=each) for each in (True, False)),
        Effect(refute=True),
    ),
}
"""The rows of README's table: choices of parameters that disclose about the same."""


def leak_table() -> str:
    """README's table, one row for algorithms that disclose about the same."""
    everyone = [{*each.disclosures()} for some in GROUPS.values() for each in some]
    first = set.intersection(*(opened for opened in everyone if CATEGORIES in opened))
    alone = "tests that a site does alone (`vote`, `fisher`, `weighted_p`)"
    columns = _row(f"first, of columns: all but RFcd, Fed-CD and {alone}", first)
    rows = [f"{columns.removesuffix('|')}In the set-up of real sites: {SAME_ROWS.lower()} |"]
    for name, algorithms in GROUPS.items():
        declared = [{*each.disclosures()} for each in algorithms]
        rows.append(_row(name, joined(*(d - first if CATEGORIES in d else d for d in declared))))
    again = f"\nWith `bootstrap`, besides: {' '.join(sentences(Resampled.discloses))}"
    patients, besides = (" ".join(sentences([each])) for each in Survival.of_visits)
    again += f" Where rows are visits of patients: {patients} With Survival, too: {besides}\n"
    heads = "| a run discloses at most | exact sums over all sites | one bit each | otherwise |"
    return "\n".join([heads, "|---|---|---|---|", *rows]) + "\n" + again


def _row(name: str, disclosures: Iterable[Disclosure]) -> str:
    """A row of the table, with a column for sums and one for bits."""
    exact, bit, rest = [], [], []
    for each in joined(disclosures):
        summed = each.heading == CATEGORIES.heading
        (exact if summed else bit if each.precision == Precision.BIT else rest).append(each)
    words = [
        " ".join(f"{each.quantity[0].upper()}{each.quantity[1:]}." for each in some)
        for some in (exact, bit)
    ]
    return f"| {' | '.join([name, *words, ' '.join(sentences(rest))])} |"


def items(*algorithms: Algorithm, differ_by: str = "") -> str:
    """What runs of some algorithms disclose, an item for each, with the option they differ by."""
    option = differ_by.rpartition(".")[2]
    return "".join(
        f"- *{each.title}{f', `{option}={attrgetter(differ_by)(each)}`' if option else ''}:* "
        f"{' '.join(sentences(each.disclosures()))}\n"
        for each in algorithms
    )


PAGES: dict[str, Callable[[], str]] = {
    "README.md": leak_table,
    "docs/explanation/bits.md": partial(items, *BY_BITS, FedCMFS()),
    "docs/explanation/fedboss.md": partial(items, FedBOSS()),
    "docs/explanation/fedcd.md": partial(items, *BY_AGGREGATION, differ_by="averaging.aggregation"),
    "docs/explanation/fedcmfs.md": partial(items, *BY_REVEAL, differ_by="reveal"),
    "docs/explanation/rfcd.md": partial(items, *BY_OBJECTIVE, differ_by="objective"),
    "docs/compliance/gdpr.md": leak_table,
}


def page(name: str) -> str:
    """The text of a page with what is declared now."""
    before, _, rest = (ROOT / name).read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{PAGES[name]()}\n{END}{after}"


def main() -> int:
    """Write the pages, or compare them."""
    changed = [name for name in PAGES if page(name) != (ROOT / name).read_text("utf-8")]
    if "--check" in sys.argv:
        for name in changed:
            click.echo(f"{name} says something else: python docs/disclosures.py")
        return int(bool(changed))
    for name in changed:
        (ROOT / name).write_text(page(name), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
