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
    run = ("simulate", "fedpc", ALARM, "--sites", 3, "--out", "result", "--protection", "bfv")
    code, said = without_posix(folder, *run)
    assert code == 0, said
    read = "audit verify result , audit show result , graph show result , report result"
    code, said = without_posix(folder, read, ", schema infer", ALARM, "--out schema.toml")
    assert code == 0, said
    assert (folder / "schema.toml").exists()


WHERE = ("--study", "lungs", "--host", "localhost", "--port", 8402)


def test_a_site_is_made_and_asks_to_take_part(folder):
    asking = ("site new north --algorithm fedpc", *WHERE, ", site status --dir north")
    code, said = without_posix(folder, *asking, ", site request --dir north")
    assert code == 0, said
    assert list((folder / "north").glob("*.request"))


def test_what_needs_locks_names_the_system_and_the_way_out(folder):
    code, said = without_posix(folder, "coordinator", "new", "--dir", "c", *WHERE)
    assert code == 0, said
    code, said = without_posix(folder, "coordinator", "start", "--dir", "c")
    assert code == 4, said
    assert "WSL 2" in said
    assert "Traceback" not in said
