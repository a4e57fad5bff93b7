"""How many bits about every two columns a plan finds, as a site counts them before it answers.

    python benchmarks/bits_of_pairs.py DATA_FOLDER --out benchmarks/results/bits_of_pairs

Samples of `fedpc_data`, 5,000 rows at ten sites. A bit counts for every pair of the columns that it
is about, those of S too, so these are upper bounds of what it tells about any two.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fedpc_data import VARIABLES, draw
from markdown_table import table
from measuring import parser, write_report

from cipherdag import FedBOSS, Federation, FedPC
from cipherdag.protocol.progress import RoundReport
from cipherdag.questions.question import Question
from cipherdag.questions.scores.bit_names import bits_by_pair

SITES = 10
PLANS = {"FedPC": FedPC(), "FedPC, 5 resamples": FedPC(bootstrap=5), "FedBOSS": FedBOSS()}
RUNS = [
    ("alarm", "FedPC"), ("linear-50", "FedPC"),
    ("insurance", "FedPC"), ("insurance", "FedPC, 5 resamples"), ("insurance", "FedBOSS"),
]  # fmt: skip
HEAD = ("data", "plan", "bits opened", "most of a pair", "median of a pair")


class Counter:
    """Counts the bits of every round that a run asks for."""

    def __init__(self, n_variables: int) -> None:
        self.counts = np.zeros((n_variables, n_variables), dtype=np.int64)
        self.opened = 0

    def __call__(self, report: RoundReport) -> None:
        """Let a round end."""

    def asked(self, _number: int, question: Question, _shown: object) -> None:
        """Count what a round asks for."""
        if question.opens_bits:
            self.counts += bits_by_pair(question, len(self.counts))
            self.opened += question.n_values


def measured(folder: Path, name: str, plan: str, seed: int) -> dict:
    """The bits of one plan on one sample."""
    rows, schema, _ = draw(name, folder, seed)
    counter = Counter(VARIABLES[name])
    Federation.split(rows, SITES, schema=schema).run(PLANS[plan], progress=counter)
    pairs = counter.counts[np.triu_indices(VARIABLES[name], 1)]
    figures = counter.opened, int(pairs.max()), float(np.median(pairs))
    return dict(zip(HEAD, (name, plan, *figures), strict=True))


def markdown(report: dict) -> str:
    """A row for every plan."""
    return (
        "\n".join(table(HEAD, [[str(case[each]) for each in HEAD] for case in report["cases"]]))
        + "\n"
    )


def main() -> None:
    options = parser(__doc__, seed=5)
    options.add_argument("folder", type=Path)
    arguments = options.parse_args()
    cases = [measured(arguments.folder, *each, arguments.seed) for each in RUNS]
    report = {"seed": arguments.seed, "sites": SITES, "cases": cases}
    print(markdown(report))
    write_report(arguments.out, "bits_of_pairs", report, markdown)


if __name__ == "__main__":
    main()
