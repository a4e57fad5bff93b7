"""Windows, as far as it can be had here: without POSIX's modules, locks and sockets of files."""

import subprocess
import sys

import pytest
from documents import ROOT, environment

ALARM = ROOT / "benchmarks" / "data" / "alarm_5000.csv.gz"


def without_posix(folder, *words):
    """What a command says and its exit code, in a folder."""
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding",
         str(ROOT / "tests" / "support" / "without_posix.py"), *map(str, words)],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("windows")


def test_a_run_in_one_process_and_all_that_reads_it_work(folder):
    code, said = without_posix(
        folder, "simulate", "fedpc", ALARM, "--sites", 3, "--out", "result", "--protection", "bfv"
    )
    assert code == 0, said
    for words in (
        ("audit", "verify", "result"),
        ("audit", "show", "result"),
        ("graph", "show", "result"),
        ("report", "result"),
        ("schema", "infer", ALARM, "--out", "schema.toml"),
    ):
        code, said = without_posix(folder, *words)
        assert code == 0, said


WHERE = ("--study", "lungs", "--host", "localhost", "--port", 8402)


def test_a_site_is_made_and_asks_to_take_part(folder):
    for words in (
        ("new", "north", "--algorithm", "fedpc", *WHERE),
        ("status", "--dir", "north"),
        ("request", "--dir", "north"),
    ):
        code, said = without_posix(folder, "site", *words)
        assert code == 0, said


def test_what_needs_locks_names_the_system_and_the_way_out(folder):
    code, said = without_posix(folder, "coordinator", "new", "--dir", "c", *WHERE)
    assert code == 0, said
    code, said = without_posix(folder, "coordinator", "start", "--dir", "c")
    assert code == 4, said
    assert "WSL 2" in said
    assert "Traceback" not in said
