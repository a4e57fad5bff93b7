"""What a new part costs is what the page on the house says: each is added to a copy, and used."""

import re
from dataclasses import dataclass, field

import pytest
from documents import ROOT
from house import add, chow_liu, copied, run, table

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
SITES = """
import numpy as np
import pandas as pd
from cipherdag import Federation, FedPC, Policy, Run

rows = pd.read_csv("data.csv")


def sites(rows=rows, n_sites=3, **more):
    policy = Policy(min_cell_size=0, reveal="sums", allow_unprotected=True)
    return Federation.split(rows, n_sites, policy=policy, device="cpu", **more)
"""


@dataclass(frozen=True)
class Part:
    """One more part: new files, lines before others, a script that uses it and what that prints."""

    files: dict[str, str]
    script: str
    prints: tuple[str, ...]
    lines: list[tuple[str, str, str]] = field(default_factory=list)


ALGORITHM = Part(
    *chow_liu()[:1],
    lines=chow_liu()[1],
    script="""
from cipherdag.algorithms.registry import make_algorithm
print(sites().run(make_algorithm("chow-liu", {})).finding.graph)
""",
    prints=("alarm --- blood_pressure",),
)
EVIDENCE = Part(
    {
        "algorithms/evidence/twice_the_mean.py": '''"""Twice the mean p-value."""

import numpy as np

from cipherdag.algorithms.evidence.combination_method import CombinationMethod
from cipherdag.algorithms.evidence.combined import CombinedTests
from cipherdag.questions.disclosure import Quantity, sums


class TwiceTheMean(CombinedTests):
    """A p-value however the sites depend (Rueschendorf, 1982)."""

    def _p_values_of(self, question, sums, tests):
        return np.minimum(2.0 * super()._p_values_of(question, sums, tests), 1.0)


def opened(settings):
    yield from ()
    return TwiceTheMean("weighted_p", settings)


TWICE_THE_MEAN = CombinationMethod(
    name="twice-the-mean",
    discloses=sums(Quantity.P_VALUES, Quantity.TEST_ROWS),
    open=opened,
)
'''
    },
    lines=[("algorithms/evidence/registry.py", '"pooled_moments", ', '"twice_the_mean", ')],
    script="""
run = sites().run(FedPC(evidence="twice-the-mean", reveal="sums"))
print(run.disclosures, run.finding.headline)
""",
    prints=("rows of each test; p-values times rows", "4 edges"),
)
QUESTION = '''"""How many rows miss no value?"""

from cipherdag.questions.disclosure import Quantity, sums
from cipherdag.questions.encodings import Encoding
from cipherdag.questions.question import Question


class CompleteRows(Question, frozen=True, tag="complete-rows"):
    """How many rows have a value of every variable? It opens their sum."""

    discloses = sums(Quantity.ROWS)
    resamplable = True
    countable = True

    n_variables: int
    max_rows: int = 1 << 20

    @property
    def label(self):
        return "complete rows"

    @property
    def encodings(self):
        return (Encoding(1, float(self.max_rows), self.discloses),)
'''
COMPLETE_ROWS = Part(
    {
        "questions/complete_rows.py": QUESTION,
        "sites/answers/complete_rows_answers.py": '''"""A site's answer to `CompleteRows`."""

import numpy as np

from cipherdag.questions.complete_rows import CompleteRows
from cipherdag.sites.answers.registry import answers


@answers(CompleteRows)
def complete_rows(question, view):
    columns = np.array([view.raw_column(v) for v in range(view.n_variables)])
    return np.array([(~np.isnan(columns).any(axis=0)).sum()], dtype=np.float64)
''',
    },
    script="""
from cipherdag.questions.complete_rows import CompleteRows
from cipherdag.questions.question import Resampled
from cipherdag.questions.threshold import ContributorCounts, sum_with_threshold


def asking(facts):
    question = CompleteRows(n_variables=facts.n_variables)
    whole = yield from sum_with_threshold(question, 3)
    counts = ContributorCounts(question=question)
    resampled = yield Resampled(question=counts, replicate=1)
    return whole.tolist(), resampled.tolist()


rows = pd.DataFrame({"x": ["a", "b"] * 60, "y": ["c", None, "d"] * 40})
federation = Federation.split(rows, 4, policy=Policy(min_cell_size=0), device="cpu")
finished = federation.ask("fedpc", asking)
print(finished.outcome)
print([report.kind for report in finished.rounds])
""",
    prints=(
        "([80.0], [4.0])",
        "['complete-rows+contributors', 'complete-rows+covered', ",
        "'complete-rows+contributors+resampled'",
    ),
)
CI_TEST = Part(
    {
        "sites/compute/ci_tests/ranks.py": '''"""Fisher's z of ranks."""

from scipy.stats import rankdata

from cipherdag.sites.compute.ci_tests.ci_test import computes
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest


@computes("ranks")
class RankTest(FisherZTest):
    """Fisher's z of ranks, which no increasing scale changes."""

    @classmethod
    def of_table(cls, table, spec, name, device):
        return cls(rankdata(table.numbers(), axis=0, nan_policy="omit"), device=device)
'''
    },
    lines=[
        (
            "questions/ci_tests.py",
            '    CITestKind("g2", ',
            '    CITestKind("ranks", {"continuous": "ranks"}, offered=("fedpc",)),\n',
        )
    ],
    script="""
test = FedPC(evidence="vote", test="ranks", reveal="sums")
plain, scaled = (sites(own).run(test).finding for own in (rows, np.exp(3 * rows)))
print(plain.graph == scaled.graph, plain.headline)
""",
    prints=("True 4 edges",),
)
FINDING = Part(
    {
        "findings/row_count.py": '''"""How many rows the sites hold together."""

from dataclasses import dataclass

from cipherdag.findings.finding import Column, Finding, Table


@dataclass(frozen=True, kw_only=True)
class RowCount(Finding):
    """How many rows the sites hold together."""

    kind = "row-count"
    template = "row_count_run.html.j2"
    tables = (
        Table(
            name="rows",
            doc="One row.",
            columns=(Column("rows", int, "How many rows there are."),),
            rows=lambda finding: [(finding.rows,)],
        ),
    )
    causal = False

    rows: int

    @property
    def decisions(self):
        return str(self.rows).encode()

    @property
    def headline(self):
        return f"{self.rows} rows"

    def lines(self, n_sites):
        return [f"{self.headline} at {n_sites} sites"]
''',
        "pages/templates/row_count_run.html.j2": """{% extends "run.html.j2" %}
{% block found %}<h2>The sites hold {{ finding.headline }}</h2>{% endblock %}
""",
    },
    script="""
from dataclasses import dataclass
from cipherdag.algorithms import registry
from cipherdag.algorithms.algorithm import Algorithm
from cipherdag.findings.row_count import RowCount
from cipherdag.questions.pooled_data import Columns


@dataclass(frozen=True)
class Counting(Algorithm):
    name, title, concludes = "counting", "Counting", RowCount

    def ask(self, facts):
        question = Columns(n_variables=facts.n_variables, max_rows=1 << 20)
        return question.read((yield question)).rows

    def conclude(self, outcome, facts):
        return RowCount(rows=int(outcome))

    def disclosures(self):
        return Columns.discloses


registry.ALGORITHMS["counting"] = "__main__:Counting"
policy = Policy(algorithms=frozenset({"counting"}), min_cell_size=0)
federation = Federation.split(rows, 3, policy=policy, device="cpu")
folder = federation.run(Counting()).save("counted")
again = Run.load(folder, RowCount)
print(again.table("rows"), again.lines()[-3])
print((folder / "rows.csv").read_text(), (folder / "report.html").read_text())
""",
    prints=("0   900 900 rows at 3 sites", "rows\n900", "<h2>The sites hold 900 rows</h2>"),
)
SOURCE = Part(
    {
        "sites/table/json_lines.py": '''"""JSON lines: an object for every row."""

import json
from contextlib import contextmanager

from cipherdag.sites.table.cells import RawTable, Source, row_blocks


@contextmanager
def open_json_lines(path, description):
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    yield RawTable(tuple(rows[0]), row_blocks(iter([[tuple(row.values()) for row in rows]])))


JSON_LINES = Source("JSON lines", open_json_lines, suffix=".jsonl")
'''
    },
    lines=[("sites/table/reading.py", '"excel_file", ', '"json_lines", ')],
    script="""
from cipherdag import Describe
from cipherdag.sites.table.reading import READABLE

data = {name: f"{name}.jsonl" for name in ("north", "south", "west")}
for name in data.values():
    rows.to_json(name, orient="records", lines=True)
print(READABLE)
print(Federation.simulate(data, device="cpu").run(Describe()).finding.headline)
""",
    prints=("CSV, JSON lines, Excel", "2,695 to 2,705 rows"),
)
PROTECTION = Part(
    {
        "privacy/masking_of_three.py": '''"""Masking of three sites or more.

Leaks:
    What `MASKING` does.
"""

from dataclasses import replace

from cipherdag.errors import CohortError
from cipherdag.privacy.protection_kind import MASKING


def _site(index, pair_keys, *rest):
    if len(pair_keys) < 2:
        raise CohortError("masking of three needs three sites")
    return MASKING.site(index, pair_keys, *rest)


MASKING_OF_THREE = replace(MASKING, name="of-three", title="masking of three", site=_site)
'''
    },
    lines=[("privacy/protections.py", ")\nPROTECTIONS: Final", ' "masking_of_three"')],
    script="""
from cipherdag.errors import CipherdagError
from cipherdag.privacy.protections import PROTECTING

plain, masked = (sites(protection=own).run(FedPC()) for own in ("none", "of-three"))
print(PROTECTING, masked.protection, plain.finding.graph == masked.finding.graph)
try:
    sites(n_sites=2, protection="of-three").run(FedPC())
except CipherdagError as error:
    print(error)
""",
    prints=("('masking', 'bfv', 'of-three') of-three True", "masking of three needs three sites"),
)
PARAMETER = Part(
    {},
    lines=[
        (
            "algorithms/describe/algorithm.py",
            "        max_rows: Most rows",
            "        digits: How many digits are shown.\n",
        ),
        (
            "algorithms/describe/algorithm.py",
            "    max_rows: int = row_bound()",
            "    digits: int = 3\n",
        ),
    ],
    script="""
import sys
from cipherdag.cli.main import main
sys.argv[1:] = ["simulate", "describe", "--help"]
main()
""",
    prints=("--digits", "How many digits are shown."),
)
PARTS = {
    "algorithm": ALGORITHM,
    "kind of evidence": EVIDENCE,
    "kind of question": COMPLETE_ROWS,
    "conditional-independence test": CI_TEST,
    "kind of finding": FINDING,
    "source of a table": SOURCE,
    "protection": PROTECTION,
    "parameter of an algorithm": PARAMETER,
}
ROW = re.compile(
    r"^\| (?P<part>[^|]+) \| (?P<new>\d) (?P<unit>files?|folders?)\b[^|]*"
    r"\| (?P<lines>\d)(?:, in (?P<registry>[^|]+))? \|",
    re.MULTILINE,
)
PRICES = {row["part"]: row for row in ROW.finditer(PAGE.read_text("utf-8"))}


TRIED = """
import sys
import traceback
for name, script in {scripts!r}.items():
    print("tried:", name)
    try:
        exec({sites!r} + script, globals())
    except SystemExit:
        pass
    except BaseException:
        traceback.print_exc(file=sys.stdout)
"""


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """What each part costs, added to one copy after the other, and what its script prints there."""
    house = copied(tmp_path_factory.mktemp("house"))
    table(house / "data.csv")
    costs = {name: add(house, part.files, part.lines) for name, part in PARTS.items()}
    scripts = {name: part.script for name, part in PARTS.items()}
    (house / "parts.py").write_text(TRIED.format(scripts=scripts, sites=SITES), "utf-8")
    code, said = run(house, "parts.py")
    assert code == 0, said
    printed = dict(each.split("\n", 1) for each in said.split("tried: ")[1:])
    return {name: (*cost, printed[name]) for name, cost in costs.items()}


def test_every_part_has_its_row():
    assert PRICES.keys() == PARTS.keys()


@pytest.mark.parametrize("name", PARTS)
def test_a_part_costs_what_the_page_says_and_works(tried, name):
    part, price = PARTS[name], PRICES[name]
    new, changed, said = tried[name]
    assert "Traceback" not in said, said
    assert [text for text in part.prints if text not in said] == [], said
    assert len(new) == int(price["new"])
    assert {path.endswith("/") for path in new} <= {price["unit"].startswith("folder")}
    assert sum(changed.values()) == int(price["lines"])
    if price["registry"] and price["registry"].startswith("`"):
        assert [f"`{path}`" for path in changed] == [price["registry"]]


REFUSED = """
from cipherdag import Federation, Policy
try:
    Policy(questions=frozenset({"complete-rows"}))
    from cipherdag.sites.answers.registry import answer_to
    from cipherdag.questions.skeleton import EdgeVotes
    answer_to(EdgeVotes)
except TypeError as error:
    print("refused:", error)
"""


def test_a_question_without_an_answer_or_words_for_ledgers_is_refused(tmp_path):
    house = copied(tmp_path)
    path = house / "cipherdag/questions/complete_rows.py"
    path.write_text(QUESTION, "utf-8")
    code, said = run(house, "-c", REFUSED)
    assert code == 0, said
    assert "refused: no function answers CompleteRows" in said
    path.write_text(QUESTION.replace("    discloses = sums(Quantity.ROWS)\n", ""), "utf-8")
    code, said = run(house, "-c", "import cipherdag.sites.policy.policy")
    assert code == 1
    assert "CompleteRows does not say what it discloses" in said
