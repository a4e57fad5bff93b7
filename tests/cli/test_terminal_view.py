"""The view of a run on a terminal: what it says, that it goes away, and that a pipe has none."""

import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import adversary
import pytest
from rich.console import Console

from cipherdag import FedPC
from cipherdag.algorithms.fedcd.algorithm import FedCD
from cipherdag.cli.live import LiveRun
from cipherdag.cli.options import following
from cipherdag.cli.terminal import TerminalView, ahead, on_terminal, view_rows
from cipherdag.protocol.progress import DropOut

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PATIENCE_S = 120.0
CUT = SimpleNamespace(label="votes on edges")  # all that a view reads of a question
WORDS = ("sites", "round", "released", "elapsed")


def on_a_terminal(*command, term="xterm-256color", columns=120):
    """What a command writes to a terminal of its own, and its exit code."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": term, "COLUMNS": str(columns), "LINES": "40"}
    process = subprocess.Popen(
        [sys.executable, *map(str, command)], stdin=theirs, stdout=theirs, stderr=theirs, env=env
    )
    os.close(theirs)
    written, deadline = b"", time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and select.select([ours], [], [], PATIENCE_S)[0]:
        try:
            some = os.read(ours, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not some:
            break
        written += some
    os.close(ours)
    return process.wait(timeout=PATIENCE_S), written.decode()


def screen(written, columns=120):
    """The lines that stay on a terminal: the few sequences that rich writes are followed."""
    lines, row, column = [""], 0, 0
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", written):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            column = 0
        elif part.startswith("\x1b"):
            number = int(re.sub(r"\D", "", part) or 1)
            if part.endswith("A"):
                row -= number
            elif part.endswith("K"):
                lines[row], column = "", 0
        else:
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "patients.csv"
    adversary.patients(3000, 0).to_csv(path, index=False)
    return path


def test_a_terminal_shows_the_run_and_keeps_only_what_a_pipe_gets(table):
    command = ("-m", "cipherdag", "simulate", "fedpc", table, "--sites", "3")
    code, written = on_a_terminal(*command)
    assert code == 0
    seen = ESCAPE.sub("", written)
    assert "setting up" in seen
    assert "3 of 3 online: site-1, site-2, site-3" in seen
    assert all(word in seen for word in WORDS)
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1  # the cursor comes back
    piped = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    assert "\x1b" not in piped.stdout
    assert "\r" not in piped.stdout
    assert "online" not in piped.stdout

    def timeless(lines):
        return [re.sub(r" +\d+\.\d s| *[\d.]+ kB| +\d+ B", "", own) for own in lines if own.strip()]

    assert timeless(screen(written)) == timeless(piped.stdout.splitlines())


def test_json_on_a_terminal_is_one_object_per_line(table):
    command = ("-m", "cipherdag", "simulate", "fedpc", table, "--sites", "3", "--json")
    code, written = on_a_terminal(*command)
    assert code == 0
    assert "\x1b" not in written
    lines = [json.loads(line) for line in written.splitlines()]
    assert [next(iter(line)) for line in lines] == ["round"] * (len(lines) - 1) + ["result"]
    assert [line["round"]["number"] for line in lines[:-1]] == list(range(1, len(lines)))


@pytest.mark.parametrize(
    ("term", "wanted"), [("xterm", True), ("screen-256color", True), ("dumb", False), ("", False)]
)
def test_a_terminal_that_takes_no_line_back_gets_no_view(monkeypatch, term, wanted):
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert on_terminal() == wanted


def test_a_failed_run_gives_the_cursor_back(table):
    code, written = on_a_terminal(
        "-c",
        "from cipherdag.cli.options import following, say\n"
        "with following(as_json=False, n_sites=2) as progress:\n"
        "    say('said meanwhile')\n"
        "    raise SystemExit(3)\n",
    )
    assert code == 3
    assert "\x1b[?25h" in written.split("\x1b[?25l")[1]
    assert screen(written)[:2] == ["said meanwhile", ""]


def test_rows_say_what_the_state_holds():
    run, sites = LiveRun(), [f"site-{k}" for k in range(12)]
    began = replace(run.state, began=0.0)
    assert dict(view_rows(began, 0, 0.0))["sites"] == "none has answered yet"
    assert dict(view_rows(began, 12, 3725.9)) == {
        "sites": "12 in the run; none has answered yet",
        "round": "setting up: the sites agree on keys",
        "released": "0 values per site in 0 rounds, 0 B by all sites",
        "elapsed": "1:02:05",
    }
    going = replace(
        began, round=4, label="votes on edges, given one other", rounds=3, values=137,
        sent={"a": 1000, "b": 500, "c": 0}, present=("a", "b"), n_cohort=3,
    )  # fmt: skip
    said = dict(view_rows(going, 3, 1.0))
    assert said["sites"] == "2 of 3 online: a, b; gone: c"
    assert said["round"] == "4  votes on edges, given one other"
    assert said["released"] == "137 values per site in 3 rounds, 1.5 kB by all sites"
    many = replace(going, present=tuple(sites), sent=dict.fromkeys(sites, 1), n_cohort=12)
    assert dict(view_rows(many, 12, 1.0))["sites"].endswith("site-7, ...")


def test_the_view_counts_what_the_rounds_report(monkeypatch):
    federation, shown, reports = adversary.hospitals(), io.StringIO(), []
    console = Console(file=shown, force_terminal=True, width=200)
    run = LiveRun()
    with TerminalView(run, 3, console=console) as view:

        def progress(report):
            reports.append(report)
            view.finished(report)

        federation.run(FedPC(evidence="vote"), progress=run.watching(progress, ()))
    said = dict(view_rows(run.state, 0, run.state.began))
    values = sum(report.values for report in reports)
    assert said["released"].startswith(f"{values} values per site in {len(reports)} rounds")
    plain = ESCAPE.sub("", shown.getvalue())
    assert all(f"round {report.number:<3} {report.label}" in plain for report in reports)


def test_names_and_labels_are_no_markup_and_long_ones_are_cut(monkeypatch):
    shown, run = io.StringIO(), LiveRun()
    run.state = replace(
        run.state, round=1, label="[red]x[/red] " + "y" * 500, present=("[b]",), n_cohort=1
    )
    console = Console(file=shown, force_terminal=True, width=60)
    with TerminalView(run, 1, console=console):
        pass
    plain = ESCAPE.sub("", shown.getvalue())
    assert "[red]x[/red]" in plain
    assert "1 of 1 online: [b]" in plain
    assert max(map(len, plain.splitlines())) <= 60


def test_a_site_that_left_is_said_above_the_view():
    federation, shown, reports = adversary.hospitals(), io.StringIO(), []
    federation.run(FedPC(evidence="vote"), progress=reports.append)
    left = DropOut(
        site="hospital-2",
        round=1,
        step="share",
        reason="timeout",
        in_sum=False,
        n_sites=2,
        fewest=2,
    )
    console = Console(file=shown, force_terminal=True, width=200)
    with TerminalView(LiveRun(), 3, console=console) as view:
        view.finished(replace(reports[0], left=(left,)))
    assert "Site 'hospital-2' left the run in round 1" in ESCAPE.sub("", shown.getvalue())


def test_without_a_terminal_the_lines_are_plain(capsys):
    assert not on_terminal()
    reports = []
    adversary.hospitals().run(FedPC(evidence="vote"), progress=reports.append)
    with following(as_json=False, n_sites=1) as progress:
        progress(reports[0])
    with following(as_json=True, n_sites=1) as progress:
        progress(reports[0])
    plain, structured = capsys.readouterr().out.splitlines()
    assert plain.startswith("round 1")
    assert json.loads(structured)["round"]["label"] == reports[0].label


def test_what_is_done_and_left_is_told_where_the_rounds_are_known():
    assert ahead(3, 10, 12.0) == "30% of at most 10 rounds, 0:01:24 left at most"
    assert ahead(10, 10, 12.0) == "100% of at most 10 rounds"
    assert ahead(3, None, 12.0) == ahead(0, 10, 12.0) == ""
    state = replace(LiveRun().state, began=0.0, round=8, rounds=2, number=7)  # goes on after 5
    assert dict(view_rows(state, 3, 20.0, 10))["done"].endswith("0:00:30 left at most")
    assert "done" not in dict(view_rows(state, 3, 20.0))


def test_an_algorithm_says_its_most_rounds_or_nothing():
    assert FedPC().most_rounds is None
    assert FedCD(rounds=4).most_rounds == 4


def test_a_pipe_hears_of_a_round_that_does_not_end(monkeypatch, capsys):
    monkeypatch.setattr("cipherdag.cli.options.SILENCE_S", 0.02)
    reports = []
    adversary.hospitals().run(FedPC(evidence="vote"), progress=reports.append)
    with following(as_json=False, most_rounds=len(reports)) as progress:
        wait_for("the set-up goes on", capsys)
        progress.asked(1, CUT, None)
        wait_for(f"round 1, {CUT.label}, goes on", capsys)
        progress(reports[0])
    told = capsys.readouterr()
    assert f"done    {1 / len(reports):.0%} of at most {len(reports)} rounds" in told.out
    with following(as_json=True):
        time.sleep(0.1)
    assert capsys.readouterr() == ("", "")


def wait_for(words, capsys):
    deadline = time.monotonic() + PATIENCE_S
    while words not in capsys.readouterr().err:
        assert time.monotonic() < deadline
        time.sleep(0.01)
