"""The fast suite is honest: whatever is registered keeps a test in it, found from the registers.

Every worker collects all tests before any are left out, so what is asked here is the whole suite.
"""

import inspect
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import get_args

import costs
import pytest
from costs import COLLECTED, fast

from cipherdag import errors
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.registry import ALGORITHMS
from cipherdag.findings.finding import Finding
from cipherdag.privacy.protections import PROTECTIONS
from cipherdag.questions.ci_tests import CI_TESTS
from cipherdag.questions.question import question_kinds
from cipherdag.sites.study.study import EngineName
from cipherdag.sites.table.reading import SOURCES

ROOT = Path(__file__).parents[2]
APART = "feature_is_fast"
PAGE = ROOT / "docs" / "explanation" / "attacks.md"
ERRORS = {
    name: own
    for name, own in vars(errors).items()
    if isinstance(own, type) and issubclass(own, errors.CipherdagError) and not own.__subclasses__()
}
PARAMETER = {
    "algorithm": (ALGORITHMS, r"test_it_keeps_the_law\[.*(sums_alone|saved_run|protections)"),
    "evidence": (EVIDENCE, "test_p_values_depend_on_no_order_and_nothing_is_asked_twice"),
    "CI test": (CI_TESTS, "test_no_order_of_rows_columns_or_variables_counts"),
    "question": ([*question_kinds().values()], "test_it_has_a_phrase_for_ledgers"),
    "protection": (PROTECTIONS, "test_all_are_made_alike_and_give_the_same_sums"),
    "source": (SOURCES, "test_a_source_is_known_by_name_or_content_and_reads_as_the_csv"),
    "result": (Finding.kinds().values(), "test_what_is_saved_is_the_same_in_the_hand"),
}
"""What is registered, and the test that takes each of it as a parameter and tries it."""
NAMED = {"engine": ("local", *get_args(EngineName)), "error": ERRORS}
"""What a test names in its own text, among its parameters or by its fixtures."""
NEEDS_PROCESSES = {"test_carriers.py", "test_every_engine.py"}
"""Whose attacks are on processes."""
NAMES_ALL = "test_refusals.py"  # goes through every error without raising any


@pytest.fixture(scope="module")
def collected(request):
    """Every test of the suite; in a run of some files alone, the whole suite is collected apart."""
    items = request.session.stash[COLLECTED]
    files = {*ROOT.glob("tests/**/test_*.py")}
    # a file that is skipped whole, for want of what it imports, is not collected there either
    if not files <= {item.path for item in items} and request.config.option.keyword != APART:
        line = [sys.executable, "-m", "pytest", "-p", "no:xdist", "tests", "-k", APART]
        subprocess.run(line, cwd=ROOT, check=True)
        pytest.skip("passed where the whole suite was collected")
    return items


def parameters(item):
    return [*item.callspec.params.values()] if hasattr(item, "callspec") else []


@pytest.mark.parametrize("what", PARAMETER)
def test_whatever_is_registered_is_tried_by_the_fast_suite(collected, what):
    registered, tried = PARAMETER[what]
    tests = [item for item in collected if fast(item) and re.search(tried, item.nodeid)]
    found = [value for item in tests for value in parameters(item)]
    assert [own for own in registered if own not in found] == []


@pytest.mark.parametrize("what", NAMED)
def test_whatever_has_a_name_is_named_by_the_fast_suite(collected, what):
    tests = [
        item for item in collected
        if fast(item) and item.path.name not in (NAMES_ALL, Path(__file__).name)
    ]  # fmt: skip
    texts = {inspect.getsource(own) for own in {item.function for item in tests}}
    texts |= {" ".join([str(parameters(item)), *item.fixturenames]) for item in tests}
    words = {word.lower() for text in texts for word in re.findall(r"[A-Za-z]+", text)}
    assert [own for own in NAMED[what] if not {own.lower(), f"{own.lower()}engine"} & words] == []


def test_every_attack_of_the_page_is_tried_by_the_fast_suite(collected):
    tests = defaultdict(list)
    for item in collected:
        tests[item.path.name, item.originalname].append(fast(item))
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    left = []
    for row in rows:
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", row)
        rest = [own for own in named if own[0] not in NEEDS_PROCESSES]
        if rest and not any(any(tests[own]) for own in rest):
            left.append(row)
    assert left == []


def test_of_many_seeds_the_fast_suite_takes_the_first(collected):
    places = [item.callspec.indices for item in collected if fast(item) and parameters(item)]
    assert max(own.get("seed", 0) for own in places) == costs.FAST_SEEDS - 1


def test_what_was_measured_takes_the_place_of_what_was_known(tmp_path, monkeypatch):
    known = tmp_path / "durations.json"
    monkeypatch.setattr(costs, "FILE", known)
    here = str(Path(__file__).relative_to(ROOT))
    known.write_text(
        json.dumps({
            "seconds": {here: {"gone": 9.0, "one": 9.0}, "tests/no_file.py": {"one": 1.0}},
            "processes": {here: ["one"]},
        }),
        "utf-8",
    )  # fmt: skip
    cost = {"own": 0.2, "processes": 0, "uses": ["shared"]}
    tests = {
        f"{here}::one": cost,
        f"{here}::two": cost | {"own": 0.01},
        f"{here}::three": cost | {"own": 0.0, "processes": 1, "uses": []},
    }
    for whole, left in ((True, {}), (False, {"gone": 9.0})):
        written = json.loads(costs.written(tests, {"shared": [(0.9, 0), (1.1, 0)]}, whole))
        # two tests asked for the fixture, which was set up twice, for a second each time
        assert written["seconds"] == {here: left | {"one": 1.2, "two": 1.01}}
        assert written["processes"] == {here: ["three"]}
    starts = {"shared": [(0.9, 2)]}  # whoever uses what a process stands behind needs it
    assert json.loads(costs.written(tests, starts, True))["processes"][here] == sorted(
        ["one", "two", "three"]
    )
