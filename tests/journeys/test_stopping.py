"""A run in this process that is stopped keeps its rounds, goes on, and overwrites nothing."""

import json
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np
import pandas as pd
import pytest

from cipherdag import FedPC
from cipherdag.algorithms.fedcd.algorithm import FedCD
from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
from cipherdag.algorithms.rfcd.algorithm import RFcd
from cipherdag.errors import CipherdagError, OutputError, ResultExistsError
from cipherdag.federation.checkpoint import ROUNDS_FILE, Checkpoint, CheckpointRound, read_rounds
from cipherdag.federation.simulated import Federation
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.graphs.networks import asia
from cipherdag.questions.local_beliefs import Training
from cipherdag.results.folder import UNFINISHED, new_result_folder, verify_folder
from cipherdag.results.run import Run

PATIENTS = asia().sample(900, np.random.default_rng(0))


def hospitals(protection="masking", seed=0):
    return Federation.split(PATIENTS, 3, seed=seed, device="cpu", protection=protection)


def labelled():
    return Federation.split(PATIENTS, 3, device="cpu", labels=("Dyspnoea", "XRay"))


def intervened():
    rng = np.random.default_rng(3)
    a = rng.normal(size=300)
    told = np.where(np.arange(300) % 3 == 0, "b", "")
    b = np.where(told == "b", rng.normal(size=300), a + 0.3 * rng.normal(size=300))
    frame = pd.DataFrame({"a": a, "b": b, "c": b + rng.normal(size=300), "what": told})
    frame[["a", "b", "c"]] = (frame[["a", "b", "c"]] > 0).astype(int)
    return Federation.split(frame, 3, device="cpu", interventions="what", deal="horizontal")


def stopping(after, seen=None):
    def progress(report):
        if seen is not None:
            seen.append(report.number)
        if report.number == after:
            raise KeyboardInterrupt

    return progress


def sums(run):
    return [(own.number, own.label, own.aggregate) for own in run.rounds]


KNOWN = Knowledge(required=(("Smoking", "LungCancer"),), tiers=(("VisitToAsia",), ("XRay",)))
TRAINING = {"rounds": 3, "training": Training(epochs=1, fit_steps=20, graph_steps=5)}
RUNS = {
    "strata": (hospitals, FedPC()),
    "votes": (hospitals, FedPC(evidence="vote")),
    "knowledge": (hospitals, FedPC(knowledge=KNOWN)),
    "bootstrap": (hospitals, FedPC(bootstrap=2)),
    "encrypted": (lambda: hospitals("bfv"), FedPC()),
    "labels": (labelled, FedCMFS()),
    "worst case": (hospitals, RFcd()),
    "beliefs": (intervened, FedCD(**TRAINING)),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_stopped_after_any_round_comes_to_the_same_result(name, tmp_path):
    made, algorithm = RUNS[name]
    federation = made()
    whole = federation.run(algorithm, seed=5)
    rounds = len(whole.rounds)
    for after in sorted({1, rounds // 2, rounds - 1, rounds} - {0}):
        folder, seen = tmp_path / str(after), []
        with pytest.raises(KeyboardInterrupt):
            federation.run(algorithm, seed=5, keep=folder, progress=stopping(after))
        result = federation.run(algorithm, seed=5, keep=folder, progress=stopping(0, seen))
        assert seen == list(range(after + 1, rounds + 1))  # none is asked again
        assert sums(result) == sums(whole)
        assert result.finding == whole.finding
        result.save(folder)
        assert not (folder / UNFINISHED).exists()
        heads = verify_folder(folder)
        for site, own in result.releases.groupby("site"):
            assert own["session"].nunique() == 2
            assert result.bytes_sent_per_site[site] == own["bytes"].sum()
            assert heads[site].records == len(own)


def test_nobody_else_can_read_what_is_kept(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hospitals().run(FedPC(), keep=tmp_path, progress=stopping(2))
    kept = tmp_path / UNFINISHED
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in kept.iterdir())


@pytest.mark.parametrize(
    ("other", "algorithm", "seed", "named"),
    [
        (lambda: hospitals(seed=1), FedPC(), 0, "data"),
        (hospitals, FedPC(alpha=0.05), 0, "parameters"),
        (hospitals, FedPC(), 1, "seed"),
        (lambda: hospitals("bfv"), FedPC(), 0, "protection"),
        (hospitals, RFcd(), 0, "algorithm"),
    ],
)
def test_another_run_is_not_gone_on_with(other, algorithm, seed, named, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hospitals().run(FedPC(), keep=tmp_path, progress=stopping(2))
    before = (tmp_path / UNFINISHED / ROUNDS_FILE).read_bytes()
    with pytest.raises(OutputError, match=f"other {named}"):
        other().run(algorithm, seed=seed, keep=tmp_path)
    assert (tmp_path / UNFINISHED / ROUNDS_FILE).read_bytes() == before


def test_a_line_cut_by_a_crash_is_left_out_and_damage_is_named(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hospitals().run(FedPC(), keep=tmp_path, progress=stopping(3))
    file = tmp_path / UNFINISHED / ROUNDS_FILE
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines) + lines[-1][:40])
    assert sums(hospitals().run(FedPC(), keep=tmp_path)) == sums(hospitals().run(FedPC()))
    file.write_bytes(b"{}\n" + b"".join(lines))
    with pytest.raises(OutputError, match="does not hold the rounds"):
        hospitals().run(FedPC(), keep=tmp_path)


def test_rounds_of_other_questions_are_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hospitals().run(FedPC(), keep=tmp_path, progress=stopping(3))
    file = tmp_path / UNFINISHED / ROUNDS_FILE
    first, second, *rest = [own for own in read_rounds(tmp_path) if own.summed is not None]
    swapped = [
        CheckpointRound(first.releases, second.summed),
        CheckpointRound(second.releases, first.summed),
        *rest,
    ]
    file.write_bytes(b"".join(msgspec.json.encode(own) + b"\n" for own in swapped))
    with pytest.raises(OutputError, match="asked other questions"):
        hospitals().run(FedPC(), keep=tmp_path)


def test_an_altered_ledger_is_not_gone_on_with(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hospitals().run(FedPC(), keep=tmp_path, progress=stopping(2))
    file = tmp_path / UNFINISHED / ROUNDS_FILE
    file.write_bytes(file.read_bytes().replace(b'kind\\":\\"offer', b'kind\\":\\"Offer'))
    with pytest.raises(CipherdagError, match="hash"):
        hospitals().run(FedPC(), keep=tmp_path)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "all.csv"
    PATIENTS.to_csv(path, index=False)
    return path


@pytest.fixture
def stop_at(monkeypatch):
    """Stops runs of commands after a round, as Ctrl-C would."""
    own = Checkpoint.write

    def set_to(number):
        def write(self, entry):
            own(self, entry)
            if number and len(self.rounds) == number:
                raise KeyboardInterrupt

        monkeypatch.setattr(Checkpoint, "write", write)

    return set_to


def saved(folder):
    found = json.loads((folder / "result.json").read_text("utf-8"))
    return {key: found[key] for key in ("edges", "dag_edges", "evidence", "rounds")}


@pytest.mark.parametrize("command", [("run",), ("simulate",)])
def test_ctrl_c_says_how_to_go_on_and_resume_does(command, call, table, tmp_path, stop_at):
    whole, out = tmp_path / "whole", tmp_path / "out"
    simulate = ("simulate", "fedpc", table, "--sites", 3, "--device", "cpu", "--seed", 4)
    assert call(*simulate, "--out", whole)[0] == 0
    stop_at(2)
    code, _, error = call(*simulate, "--out", out)
    assert code == 130
    assert f"cipherdag run --resume {out}" in error
    assert "Round 2 had ended" in error
    stop_at(3)
    code, text, error = call(*command, "--resume", out)
    assert code == 130
    assert "Going on after round 2." in text
    assert "Round 3 had ended" in error
    stop_at(0)
    code, text, _ = call(*command, "--resume", out)
    assert code == 0
    assert "round 4 " in text
    assert "round 3 " not in text
    assert saved(out) == saved(whole)
    assert call("audit", "verify", out)[0] == 0
    assert call(*command, "--resume", out)[0] != 0  # it has ended


def test_rounds_have_a_folder_of_their_own(call, table, tmp_path, stop_at, monkeypatch):
    own = tmp_path / "temporary"
    own.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(own))
    simulate = ("simulate", "fedpc", table, "--device", "cpu")
    assert call(*simulate)[0] == 0
    assert not list(own.iterdir())
    stop_at(0)
    stop_at(3)
    assert call(*simulate)[0] == 130
    (folder,) = own.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    stop_at(0)
    code, text, _ = call("run", "--resume", folder, "--out", tmp_path / "out")
    assert code == 0
    assert "Going on after round 3." in text
    assert not folder.exists()
    assert (
        Run.load(tmp_path / "out", LearntGraph).finding.graph
        == hospitals().run(FedPC()).finding.graph
    )


def test_a_run_that_fails_or_is_stopped_at_once_keeps_nothing(call, table, tmp_path, stop_at):
    out = tmp_path / "out"
    arguments = ("simulate", "fedpc", table, "--out", out)
    assert call(*arguments, "--test", "fisherz")[0] == 6
    assert not out.exists()

    def at_once(*_, **__):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cipherdag.federation.simulated.open_checkpoint", at_once)
        code, _, error = call(*arguments)
    assert code == 130
    assert "nothing is saved" in error
    assert not out.exists()


def test_an_existing_result_is_not_overwritten_without_force(call, table, tmp_path, stop_at):
    out = tmp_path / "out"
    arguments = ("simulate", "fedpc", table, "--out", out)
    assert call(*arguments)[0] == 0
    before = (out / "result.json").read_bytes()
    for again in (arguments, ("repeat", out, "--out", out)):
        code, text, error = call(*again)
        assert code == ResultExistsError.exit_code == 1
        assert "ResultExistsError" in error
        assert "--force" in error
        assert "round" not in text
        assert (out / "result.json").read_bytes() == before
    assert call(*arguments, "--alpha", "0.2", "--force")[0] == 0
    assert Run.load(out, LearntGraph).parameters["alpha"] == 0.2
    stop_at(2)
    assert call(*arguments, "--force")[0] == 130
    stop_at(0)
    code, _, error = call(*arguments)
    assert (code, "run --resume" in error) == (1, True)
    assert call(*arguments, "--force", "--alpha", "0.05")[0] == 0
    assert not (out / UNFINISHED).exists()


def test_python_overwrites_no_result_unless_it_is_told_to(tmp_path):
    first, second = (
        Federation.split(PATIENTS, 3, seed=seed, device="cpu").run(FedPC(alpha=alpha), seed=seed)
        for seed, alpha in ((1, 0.01), (2, 0.05))
    )
    first.save(tmp_path)
    with pytest.raises(ResultExistsError, match="holds the result of another run") as refused:
        second.save(tmp_path)
    assert "force=True" in refused.value.remedy
    assert Run.load(tmp_path, LearntGraph).heads == first.heads
    second.save(tmp_path, force=True)
    assert Run.load(tmp_path, LearntGraph).heads == second.heads
    verify_folder(tmp_path)


def test_a_folder_without_a_result_is_taken_as_it_is(tmp_path):
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    new_result_folder(tmp_path, force=False)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "result.json").write_text("{}", "utf-8")
    with pytest.raises(ResultExistsError):
        new_result_folder(tmp_path, force=False)
    new_result_folder(tmp_path, force=True)


def test_a_folder_that_keeps_no_run_is_named(call, tmp_path):
    code, _, error = call("simulate", "--resume", tmp_path)
    assert code == 1
    assert "keeps no run" in error


def test_the_demo_has_a_folder_of_its_own_and_goes_on(call, tmp_path, stop_at, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stop_at(3)
    code, _, error = call("demo", "--rows", 600)
    assert code == 130
    (told,) = [line.split() for line in error.splitlines() if "--resume" in line]
    assert told == [*"cipherdag demo --rows 600 --seed 1 --resume cipherdag-demo".split()]
    stop_at(0)
    code, text, _ = call(*told[1:])
    assert code == 0
    assert "round 4 " in text
    assert "gave the same graph" in text
    assert "Open cipherdag-demo/bits/report.html" in text
    assert call("demo", "--rows", 600)[0] == 0
    assert (tmp_path / "cipherdag-demo-2" / "bfv" / "report.html").exists()
    assert call("demo", "--rows", 600, "--out", "cipherdag-demo")[0] == 1
    before = (tmp_path / "cipherdag-demo" / "bits" / "result.json").read_bytes()
    assert call("demo", "--rows", 700, "--out", "cipherdag-demo", "--force")[0] == 0
    assert (tmp_path / "cipherdag-demo" / "bits" / "result.json").read_bytes() != before


def test_a_signal_ends_the_command_with_130(table, tmp_path):
    told = ["simulate", "fedpc", table, "--out", tmp_path, "--bootstrap", "200"]  # long enough
    command = [sys.executable, "-m", "cipherdag", *told]
    # whoever runs tests in the background ignores the signal, and so would what they start
    heeds = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heeds,  # noqa: PLW1509
    )  # fmt: skip
    for line in process.stdout:
        if line.startswith("round 2"):
            process.send_signal(signal.SIGINT)
            break
    _, error = process.communicate()
    # Python may end itself by the signal, which a shell calls 130, too
    assert process.returncode in {130, -signal.SIGINT}
    assert "cipherdag run --resume" in error
    assert "Traceback" not in error


def test_reports_of_a_run_that_goes_on_are_numbered_as_a_whole(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hospitals().run(FedPC(), keep=tmp_path, progress=stopping(2))
    asked = []

    class Watching:
        def __call__(self, report):
            asked.append(replace(report).number)

        def asked(self, number, question, shown):
            del question, shown
            asked.append(-number)

    hospitals().run(FedPC(), keep=tmp_path, progress=Watching())
    assert asked[:4] == [-3, 3, -4, 4]
