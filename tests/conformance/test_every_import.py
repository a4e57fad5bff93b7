"""Every algorithm and the command line load the large libraries that they need, and no other."""

import pickle
import subprocess
import sys

import pytest
from trials import clinics, trial

from cipherdag.algorithms.registry import ALGORITHMS

HEAVY = {
    "numpy", "scipy", "scipy.special", "scipy.linalg", "scipy.sparse", "scipy.stats",
    "scipy.optimize", "torch", "pandas", "pyarrow", "narwhals", "networkx", "matplotlib", "sklearn",
    "tenseal", "syft", "nvflare", "openpyxl", "sqlalchemy", "duckdb",
}  # fmt: skip
TESTS = {"numpy", "scipy", "scipy.special"}
PAGES = {*TESTS, "scipy.linalg", "scipy.sparse", "networkx", "matplotlib", "tenseal"}
LOADED = {"rfcd": {"numpy"}, "fedcd": {"numpy", "torch"}}
"""Of the algorithms that need other libraries than `TESTS`."""
RUN = """
import pickle, sys
from cipherdag import Federation
algorithm, files, settings = pickle.loads(sys.stdin.buffer.read())
Federation.simulate(files, device="cpu", **settings).run(algorithm, seed=1)
"""
COMMAND = "from cipherdag.cli.main import main; main()"
AT_EXIT = "atexit.register(lambda: print('LOADED', *(heavy & sys.modules.keys())))"


def loaded(code, *arguments, given=None):
    """Which of `HEAVY` a process has loaded that ran some code."""
    code = f"import atexit, sys\nheavy = {HEAVY}\n{AT_EXIT}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], input=given, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return set(done.stdout.decode().rpartition("LOADED")[2].split())


def written(data, folder):
    files = {site: folder / f"{site}.csv" for site in data}
    for site, rows in data.items():
        rows.to_csv(files[site], index=False)
    return files


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_loads_what_it_needs_and_no_more(name, tmp_path):
    own = trial(name)
    settings = {"labels": own.labels, "interventions": own.interventions}
    given = pickle.dumps((own.algorithm, written(own.data, tmp_path), settings))
    assert loaded(RUN, given=given) == LOADED.get(name, TESTS)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--help", set()),
        ("run fedpc --help", {"numpy"}),
        ("run fedpc", TESTS),
        ("demo --rows 200", PAGES),
    ],
)
def test_a_command_loads_what_it_needs_and_no_more(words, expected, tmp_path):
    for optional in expected & {"matplotlib", "tenseal"}:
        pytest.importorskip(optional)
    more = {
        "run fedpc": map(str, written(clinics(5), tmp_path).values()),
        "demo --rows 200": ("--out", str(tmp_path / "demo")),
    }
    assert loaded(COMMAND, *words.split(), *more.get(words, ())) == expected
