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
RUNS = """
import os, pickle, sys
from cipherdag import Federation
for name, given in pickle.load(sys.stdin.buffer).items():
    if not (child := os.fork()):  # which has loaded no more than this process before any run
        algorithm, files, settings = pickle.loads(given)
        Federation.simulate(files, device="cpu", **settings).run(algorithm, seed=1)
        print("OF", name, *(heavy & sys.modules.keys()), flush=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, name
"""
COMMAND = "from cipherdag.cli.main import main; main()"
AT_EXIT = "atexit.register(lambda: print('LOADED', *(heavy & sys.modules.keys())))"


def printed(code, *arguments, given=None):
    """What a process printed that ran some code, and last which of `HEAVY` it has loaded."""
    code = f"import atexit, sys\nheavy = {HEAVY}\n{AT_EXIT}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], input=given, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def written(data, folder):
    files = {site: folder / f"{site}.csv" for site in data}
    for site, rows in data.items():
        rows.to_csv(files[site], index=False)
    return files


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """What a run of each algorithm has loaded, each in a process of its own."""
    given = {}
    for name in ALGORITHMS:
        own, folder = trial(name), tmp_path_factory.mktemp("data")
        settings = {"labels": own.labels, "interventions": own.interventions}
        given[name] = pickle.dumps((own.algorithm, written(own.data, folder), settings))
    said = printed(RUNS, given=pickle.dumps(given))
    words = [line.split() for line in said.splitlines() if line.startswith("OF ")]
    return {name: set(modules) for _, name, *modules in words}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_loads_what_it_needs_and_no_more(name, loaded):
    assert loaded[name] == LOADED.get(name, TESTS)


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
    said = printed(COMMAND, *words.split(), *more.get(words, ()))
    assert set(said.rpartition("LOADED")[2].split()) == expected
