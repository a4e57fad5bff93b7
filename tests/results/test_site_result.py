"""A site's own result: the program gone through again over the sums that it keeps."""

import hospital_folders
import msgspec
import numpy as np
import pandas as pd
import pytest
from adversary import silence
from driving import outcome_over
from hospital_folders import NAMES

from cipherdag import Describe, FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import (
    LedgerError,
    OutputError,
    ParameterError,
    ProgramMismatchError,
    UnreadableRunError,
)
from cipherdag.findings.doubts import DIFFERING, THIS_SITE_DETAIL
from cipherdag.program import program
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.results.site_result import site_result
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import QUESTION_KINDS, Policy
from cipherdag.sites.record.run_record import PLAN_FILE, SUMS_FILE, CheckedSum, RunRecord

ALGORITHM = FedPC(evidence="vote", alpha=0.02)
NAME = NAMES[1]


@pytest.fixture
def hospitals(hospitals):
    hospitals.installed = True
    return hospitals


def started(hospitals):
    return hospitals.session(hospitals.handlers(), parameters=msgspec.to_builtins(ALGORITHM))


def run(hospitals):
    """A whole run; what the coordinator came to, and its session."""
    session = started(hospitals)
    found = concluded(session)
    hospitals.close()
    return found, session


def concluded(session, algorithm=ALGORITHM, n_sites=3):
    facts = Facts(session.open(), n_sites, min_contributors=3)
    outcome = run_program(session, Replay(algorithm.ask(facts), facts.present))
    session.finish()
    return algorithm.conclude(outcome, facts)


def record(hospitals, session):
    return RunRecord(hospitals.folders[NAME].runs / session._plan.session.hex())


def own_result(hospitals, session=""):
    return site_result(hospitals.folders[NAME], session)


def test_every_site_comes_to_the_coordinator_s_graph_by_its_own_names(hospitals):
    found, session = run(hospitals)
    graph = found.graph
    for name, folder in hospitals.folders.items():
        own = site_result(folder)
        names = dict(zip(graph.nodes, own.finding.graph.nodes, strict=True))
        assert set(own.finding.graph.nodes) == set(own.identifiers)
        assert len(graph.edges) == len(own.finding.graph.edges) > 0
        assert {(names[e.source], names[e.target], e.mark) for e in graph.edges} == {
            (e.source, e.target, e.mark) for e in own.finding.graph.edges
        }
        assert own.parameters == msgspec.to_builtins(ALGORITHM)
        assert [r.aggregate for r in own.rounds] == [r.aggregate for r in session.rounds]
        assert [(r.label, r.n_sites) for r in own.rounds] == [
            (r.label, r.n_sites) for r in session.rounds
        ]
        assert own.bytes_sent_per_site == {name: session.bytes_sent_per_site[name]}


def test_the_latest_run_is_read_unless_one_is_named(hospitals):
    first = run(hospitals)[1]._plan
    second = run(hospitals)[1]._plan
    lines = [own_result(hospitals, plan.session.hex()[:8]) for plan in (first, second)]
    assert lines[0].finding.graph == lines[1].finding.graph == own_result(hospitals).finding.graph
    with pytest.raises(OutputError, match="0 runs of this site start with"):
        own_result(hospitals, "ff" * 8)
    for wrong in ("zz", "*", "/", f"../runs/{first.session.hex()}"):
        with pytest.raises(ParameterError, match="hexadecimal"):
            own_result(hospitals, wrong)


def test_a_site_without_a_run_has_no_result(hospitals):
    with pytest.raises(OutputError, match="no run has taken place"):
        own_result(hospitals)


def test_a_run_that_the_coordinator_left_off_has_no_result(hospitals):
    session = started(hospitals)
    question = next(ALGORITHM.ask(Facts(session.open(), 3, min_contributors=3)))
    session.ask(question)
    with pytest.raises(OutputError, match="did not end"):
        own_result(hospitals)
    session.finish()
    with pytest.raises(OutputError, match="did not end"):
        own_result(hospitals)


def test_a_run_without_its_last_word_has_no_result(hospitals):
    """The last sum is checked when the run is closed: without that nothing is known of it."""

    outcome_over(started(hospitals), ALGORITHM)
    hospitals.close()
    with pytest.raises(OutputError, match="did not end"):
        own_result(hospitals)


# what lies at the site is read, and not believed


def test_a_record_with_other_lines_gives_no_result(hospitals):
    """Cut short, doubled or turned round."""
    _, session = run(hospitals)
    path = record(hospitals, session).folder / SUMS_FILE
    lines = path.read_bytes().splitlines(keepends=True)
    for changed in ([], lines[:1], lines[:-1], [*lines, lines[-1]], lines[::-1]):
        path.write_bytes(b"".join(changed))
        with pytest.raises(UnreadableRunError, match="was changed: the ledger"):
            own_result(hospitals)


def test_a_sum_that_was_altered_gives_no_result(hospitals):
    """Nor one that leads to another graph by questions that the plan could have asked."""
    _, session = run(hospitals)
    path = record(hospitals, session).folder / SUMS_FILE
    _, sums = record(hospitals, session).read()
    for number in range(len(sums)):
        changed = list(sums)
        values = sums[number].array + 1
        changed[number] = CheckedSum(
            sums[number].number, sums[number].participants, values.astype("<f8").tobytes()
        )
        path.write_bytes(b"".join(msgspec.json.encode(own) + b"\n" for own in changed))
        with pytest.raises(UnreadableRunError, match="was changed: the ledger"):
            own_result(hospitals)
    path.write_bytes(b"".join(msgspec.json.encode(own) + b"\n" for own in sums))
    assert own_result(hospitals).rounds


def test_a_record_that_cannot_be_read_is_named_without_its_text(hospitals):
    _, session = run(hospitals)
    for name in (SUMS_FILE, PLAN_FILE):
        path = record(hospitals, session).folder / name
        honest = path.read_bytes()
        for content in (b"row 17 holds Alice\n", b"{}\n", b"\xff"):
            path.write_bytes(content)
            with pytest.raises(UnreadableRunError, match="no run that can be read") as caught:
                own_result(hospitals)
            assert "Alice" not in str(caught.value)
        path.write_bytes(honest)


def test_a_ledger_that_was_altered_vouches_for_nothing(hospitals):
    run(hospitals)
    path = hospitals.folders[NAME].ledger_path
    path.write_text(path.read_text("utf-8").replace('"round":1', '"round":2', 1), "utf-8")
    with pytest.raises(LedgerError):
        own_result(hospitals)


def test_another_program_than_that_of_the_run_gives_no_result(hospitals, monkeypatch):
    _, session = run(hospitals)
    path = record(hospitals, session).folder / PLAN_FILE
    honest = path.read_text("utf-8")
    path.write_text(msgspec.structs.replace(session._plan, program="ab" * 32).dumps(), "utf-8")
    with pytest.raises(ProgramMismatchError):
        own_result(hospitals)
    path.write_text(honest, "utf-8")
    monkeypatch.setattr(program, "program_digest", lambda name: "0" * 64)
    with pytest.raises(ProgramMismatchError):
        own_result(hospitals)


def test_what_a_site_keeps_is_private_and_is_what_was_opened(hospitals):
    _, session = run(hospitals)
    own = record(hospitals, session)
    plan, sums = own.read()
    assert plan == session._plan
    assert [len(one.array) for one in sums] == [one.values for one in session.rounds]  # noqa: PD011
    assert all(np.isfinite(one.array).all() for one in sums)
    for name in (PLAN_FILE, SUMS_FILE):
        assert (own.folder / name).stat().st_mode & 0o777 == 0o600
    assert own.folder.stat().st_mode & 0o777 == 0o700


def test_sites_that_are_left_say_how_many_each_sum_covers(tmp_path):
    names = tuple(f"hospital-{k}" for k in range(4))
    made = hospital_folders.hospitals(tmp_path, names=names)
    made.installed = True
    handlers = made.handlers()
    session = made.session(handlers, parameters=msgspec.to_builtins(ALGORITHM))

    class Ward:
        engine = session._channel.engine

    silence(Ward, "hospital-3", "unmask")
    found = concluded(session, n_sites=4).graph
    own = site_result(made.folders["hospital-0"])
    assert [r.n_sites for r in own.rounds] == [r.n_sites for r in session.rounds]
    assert {r.n_sites for r in own.rounds} == {3, 4}
    assert len(found.edges) == len(own.finding.graph.edges)
    with pytest.raises(OutputError):
        site_result(made.folders["hospital-3"])
    made.close()


def with_own_faults(hospitals):
    """Another unit at the first hospital, a code for missing values at the second.

    The first hospital's file is written as in much of Europe, which its settings describe.
    """
    written = {NAMES[0]: {"sep": ";", "decimal": ","}}
    settings = hospitals.folders[NAMES[0]].settings_path
    described = '\n[source]\ndelimiter = ";"\ndecimal = ","\n'
    settings.write_text(settings.read_text("utf-8") + described, encoding="utf-8")
    rng = np.random.default_rng(4)
    tables = {}
    for name, folder in hospitals.folders.items():
        table = pd.DataFrame({"bmi": rng.normal(24.0, 3.0, 400), "pulse": rng.normal(70, 9, 400)})
        table["smokes"] = np.where(rng.random(400) < 0.4, "yes", "no")
        if name == NAMES[0]:
            table["bmi"] *= 10.0
        if name == NAMES[1]:
            table.loc[:7, "pulse"] = -999.0
        if name == NAMES[2]:
            table["smokes"] = np.where(rng.random(400) < 0.8, "yes", "no")
        table.to_csv(folder.path / "data.csv", index=False, **written.get(name, {}))
        tables[name] = table
    schema = infer_schema(list(tables.values())).dumps()
    for folder in hospitals.folders.values():
        (folder.path / "schema.toml").write_text(schema, encoding="utf-8")


COMPARING = (FedPC(evidence="stratified", reveal="sums", max_cond_size=0), Describe())


def compared_run(hospitals, algorithm=COMPARING[0]):
    """A run over hospitals that differ; what the coordinator came to."""
    with_own_faults(hospitals)
    policy = Policy(approve_runs="automatic", questions=QUESTION_KINDS, reveal="sums")
    for folder in hospitals.folders.values():
        folder.policy_path.write_text(policy.dumps(), encoding="utf-8")
    session = hospitals.session(
        hospitals.handlers(),
        algorithm=algorithm.name,
        parameters=msgspec.to_builtins(algorithm),
        min_contributors=3,
    )
    found = concluded(session, algorithm)
    hospitals.close()
    return found


@pytest.mark.parametrize("algorithm", COMPARING, ids=lambda own: own.name)
def test_each_site_learns_alone_by_what_it_stands_out(hospitals, algorithm):
    found = compared_run(hospitals, algorithm)
    assert THIS_SITE_DETAIL not in found.details
    assert all(
        own["differs"] or own["coded"] for own in found.details[DIFFERING] if not own["given"]
    )
    said = {name: site_result(own) for name, own in hospitals.folders.items()}
    apart = {name: dict(own.finding.details[THIS_SITE_DETAIL]) for name, own in said.items()}
    assert {name: list(own) for name, own in apart.items()} == {
        NAMES[0]: ["bmi"],
        NAMES[1]: ["pulse"],
        NAMES[2]: ["smokes"],
    }
    assert "times as much, another unit?" in apart[NAMES[0]]["bmi"]
    assert "8 values are -999, and all others lie between" in apart[NAMES[1]]["pulse"]
    assert "of the rows here" in apart[NAMES[2]]["smokes"]
    own = said[NAMES[0]]
    assert "This site stands out from the others" in "\n".join(own.lines())
    assert apart[NAMES[0]]["bmi"].split(";")[0] in own.page()


def test_a_site_without_its_data_still_has_its_result(hospitals, caplog):
    compared_run(hospitals)
    (hospitals.folders[NAMES[0]].path / "data.csv").unlink()
    own = site_result(hospitals.folders[NAMES[0]])
    assert THIS_SITE_DETAIL not in own.finding.details
    assert "not compared with the other sites" in caplog.text
