"""A kind of question in two files, its struct and its answer: no other line changes."""

from __future__ import annotations

import shutil

import pytest
from documents import ROOT
from new_algorithm import run

QUESTION = '''"""How many rows miss no value?"""

from cipherdag.questions.encodings import Encoding
from cipherdag.questions.question import Question


class CompleteRows(Question, frozen=True, tag="complete-rows"):
    """How many rows have a value of every variable? It opens their sum."""

    leaves = "how many rows miss no value"
    resamplable = True
    countable = True

    n_variables: int
    max_rows: int = 1 << 20

    @property
    def label(self):
        return "complete rows"

    @property
    def encodings(self):
        return (Encoding(length=1, bound=float(self.max_rows)),)
'''
ANSWER = '''"""A site's answer to `CompleteRows`."""

import numpy as np

from cipherdag.questions.complete_rows import CompleteRows
from cipherdag.sites.answers.registry import answers


@answers(CompleteRows)
def complete_rows(question, view):
    columns = np.array([view.raw_column(v) for v in range(view.n_variables)])
    return np.array([(~np.isnan(columns).any(axis=0)).sum()], dtype=np.float64)
'''
RUN = """
import pandas as pd
from cipherdag import Federation, Policy
from cipherdag.questions.complete_rows import CompleteRows
from cipherdag.questions.question import Resampled
from cipherdag.questions.threshold import ContributorCounts, sum_with_threshold

rows = pd.DataFrame({"x": ["a", "b"] * 60, "y": ["c", None, "d"] * 40})
federation = Federation.split(rows, 4, policy=Policy(min_cell_size=0), device="cpu")


def asking(facts):
    question = CompleteRows(n_variables=facts.n_variables)
    whole = yield from sum_with_threshold(question, 3)
    counts = ContributorCounts(question=question)
    resampled = yield Resampled(question=counts, replicate=1)
    return whole.tolist(), resampled.tolist()


finished = federation.ask("fedpc", asking)
print(finished.outcome)
print([report.kind for report in finished.rounds])
"""
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


@pytest.fixture
def house(tmp_path):
    """A copy of the package."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "cipherdag", tmp_path / "cipherdag", ignore=ignored)
    return tmp_path


def test_a_struct_and_an_answer_are_all_that_a_question_takes(house):
    (house / "cipherdag/questions/complete_rows.py").write_text(QUESTION, "utf-8")
    (house / "cipherdag/sites/answers/complete_rows_answers.py").write_text(ANSWER, "utf-8")
    code, said = run(house, "-c", RUN)
    assert code == 0, said
    assert "([80.0], [4.0])" in said
    assert "['complete-rows+contributors', 'complete-rows+covered', " in said
    assert "'complete-rows+contributors+resampled'" in said


def test_a_question_without_an_answer_or_words_for_ledgers_is_refused(house):
    path = house / "cipherdag/questions/complete_rows.py"
    path.write_text(QUESTION, "utf-8")
    code, said = run(house, "-c", REFUSED)
    assert code == 0, said
    assert "refused: no function answers CompleteRows" in said
    path.write_text(QUESTION.replace('    leaves = "how many rows miss no value"\n', ""), "utf-8")
    code, said = run(house, "-c", "import cipherdag.sites.policy.policy")
    assert code == 1
    assert "CompleteRows does not say what leaves a site" in said
