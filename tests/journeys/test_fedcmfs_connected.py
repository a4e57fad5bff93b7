"""FedCMFS over sites that are folders and a coordinator that knows no name."""

from __future__ import annotations

from dataclasses import asdict

import hospital_folders
import pytest
from adversary import CrashError, CrashingEngine

from cipherdag import FedCMFS, Federation, FedPC, Schema
from cipherdag.algorithms.algorithm import Facts
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.errors import MalformedMessageError, SchemaError
from cipherdag.federation.connected import RESULT_FILE, ConnectedFederation
from cipherdag.federation.started_run import StartedRun
from cipherdag.protocol.engines.local import LocalEngine
from cipherdag.protocol.journal import Journal
from cipherdag.sites.record.ledger import read_releases
from cipherdag.sites.study.signed_result import (
    ResultFeature,
    named_features,
    read_result,
    sign_result,
)

ALGORITHM = FedCMFS(k1=100, k2=100)
LABELS = ("Theatre", "Zyrtec-dose")


@pytest.fixture
def hospitals(tmp_path):
    made = hospital_folders.hospitals(tmp_path)
    yield made
    made.close()


def mark(hospitals, labels):
    """Put a schema with these labels into every folder; returns it."""
    for folder in hospitals.folders.values():
        path = folder.path / "schema.toml"
        schema = Schema.load(path).with_labels(labels)
        path.write_text(schema.dumps(), encoding="utf-8")
    return schema


def coordinator(hospitals, tmp_path):
    path = tmp_path / "coordinator"
    (path / "keys").mkdir(parents=True, exist_ok=True)
    if not (path / "keys" / "identity.pem").exists():
        hospitals.coordinator.save(path / "keys" / "identity.pem")
    return ConnectedFederation(CoordinatorFolder(path))


def learn(hospitals, tmp_path, engine, *, algorithm=ALGORITHM, protection="masking"):
    """A connected run without FLARE, in a folder that a second call finds again."""
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True, exist_ok=True)
    started = StartedRun(
        algorithm=algorithm.name,
        parameters=asdict(algorithm),
        protection=protection,
        seed=0,
        source={},
    )
    federation = coordinator(hospitals, tmp_path)
    return federation.learn(hospitals.study, engine, folder, started, None), folder


def in_process(hospitals, schema):
    files = {name: folder.path / "data.csv" for name, folder in hospitals.folders.items()}
    return Federation.simulate(files, schema=schema, device="cpu").run(ALGORITHM)


def kinds(hospitals, name):
    lines = hospitals.folders[name].ledger_path.read_text("utf-8").splitlines()
    return [release.kind for release in read_releases(lines)]


@pytest.mark.parametrize("protection", ["masking", "bfv"])
def test_a_connected_run_is_the_run_in_one_process_without_the_names(
    hospitals, tmp_path, protection
):
    schema = mark(hospitals, LABELS)
    expected = in_process(hospitals, schema)
    engine = LocalEngine(hospitals.handlers())
    result, folder = learn(hospitals, tmp_path, engine, protection=protection)
    assert [r.aggregate for r in result.rounds] == [r.aggregate for r in expected.rounds]
    text = "".join(path.read_text("utf-8") for path in folder.rglob("*.*"))
    assert '"fedcmfs"' in text
    assert not any(name in text for name in schema.names)
    shared = read_result(folder / RESULT_FILE, hospitals.study)
    named = [
        (label, own.feature, own.strength)
        for label, chosen in expected.features.items()
        for own in chosen
    ]
    assert named
    assert named_features(shared, schema.names) == named
    assert all(kinds(hospitals, name)[1] == "label-positions" for name in hospitals.folders)


def test_the_site_reads_the_result_by_name(hospitals, tmp_path, call):
    schema = mark(hospitals, LABELS)
    expected = in_process(hospitals, schema)
    _, folder = learn(hospitals, tmp_path, LocalEngine(hospitals.handlers()))
    hospitals.close()
    site, out = hospitals.folders["hospital-0"].path, tmp_path / "read"
    code, text, _ = call("site", "result", folder / RESULT_FILE, "--dir", site, "--out", out)
    assert code == 0
    for label, chosen in expected.features.items():
        if chosen:
            assert f"{label}: {', '.join(own.feature for own in chosen)}" in text
    assert (out / "features.csv").read_text("utf-8").startswith("label,feature,strength\n")


def test_a_run_goes_on_after_a_crash_and_still_knows_the_labels(hospitals, tmp_path):
    schema = mark(hospitals, LABELS)
    handlers = hospitals.handlers()
    with pytest.raises(CrashError):
        learn(hospitals, tmp_path, CrashingEngine(handlers, "unmask", 1))
    result, _ = learn(hospitals, tmp_path, LocalEngine(handlers))
    expected = in_process(hospitals, schema)
    assert [r.aggregate for r in result.rounds] == [r.aggregate for r in expected.rounds]


def test_positions_of_labels_leave_only_for_an_algorithm_that_needs_them(hospitals, tmp_path):
    mark(hospitals, LABELS)
    session = hospitals.session(hospitals.handlers(), journal=Journal(tmp_path / "journal.jsonl"))
    session.run(FedPC().ask(Facts(session.open(), 3)))
    assert session.labels == ()
    assert all("label-positions" not in kinds(hospitals, name) for name in hospitals.folders)


def test_without_a_label_the_coordinator_says_so(hospitals, tmp_path):
    with pytest.raises(SchemaError, match="label"):
        learn(hospitals, tmp_path, LocalEngine(hospitals.handlers()))


def test_a_result_that_names_no_variable_is_refused(hospitals, tmp_path):
    signed = sign_result(
        hospitals.coordinator,
        study=hospitals.study,
        algorithm="fedcmfs",
        protection="masking",
        rounds=1,
        variables=3,
        features=(ResultFeature(1, 4, 0.5, 0.0),),
    )
    with pytest.raises(MalformedMessageError, match="variable"):
        named_features(signed.result, ("a", "b", "c"))
