"""FedCMFS over sites that are folders and a coordinator that knows no name."""

from dataclasses import replace

import pytest
from adversary import CrashError, CrashingEngine
from driving import outcome_over

from cipherdag import FedCMFS, Federation, Schema
from cipherdag.errors import SchemaError
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.journal import Journal
from cipherdag.results.site_result import site_result

ALGORITHM = FedCMFS(k1=100, k2=100)
LABELS = ("Theatre", "Zyrtec-dose")


@pytest.fixture
def hospitals(hospitals):
    hospitals.installed = True
    return hospitals


def mark(hospitals, labels):
    """Put a schema with these labels into every folder; returns it."""
    for folder in hospitals.folders.values():
        path = folder.path / "schema.toml"
        schema = Schema.load(path).with_labels(labels)
        path.write_text(schema.dumps(), encoding="utf-8")
    return schema


def learn(hospitals, tmp_path, engine, **options):
    """A connected run without FLARE, and its folder, which a second call finds again."""
    folder = tmp_path / "coordinator" / "runs" / "one"
    return hospitals.learn(folder, engine, ALGORITHM, **options), folder


def in_process(hospitals, schema):
    """The same by the same keys, which what a site moves follows from."""
    files = {name: folder.path / "data.csv" for name, folder in hospitals.folders.items()}
    made = Federation.simulate(files, schema=schema, device="cpu")
    keys = {name: own.identity().draw_key() for name, own in hospitals.folders.items()}
    sites = tuple(replace(own, keyed=keys[own.name]) for own in made.sites)
    return replace(made, sites=sites).run(ALGORITHM)


@pytest.mark.parametrize("protection", ["masking", "bfv"])
def test_a_connected_run_is_that_of_one_process(hospitals, tmp_path, protection):
    schema = mark(hospitals, LABELS)
    expected = in_process(hospitals, schema)
    engine = LocalEngine(hospitals.handlers())
    result, folder = learn(hospitals, tmp_path, engine, protection=protection)
    assert [r.aggregate for r in result.rounds] == [r.aggregate for r in expected.rounds]
    text = "".join(path.read_text("utf-8") for path in folder.rglob("*.*"))
    assert '"fedcmfs"' in text
    assert not any(name in text for name in schema.names)
    assert any(expected.finding.features.values())
    for own in hospitals.folders.values():
        assert site_result(own).finding.features == expected.finding.features
    for name in hospitals.folders:
        assert hospitals.kinds(name)[:3] == ["offer", "seals", "schema-digest+label-positions"]


def test_every_site_reads_the_result_by_name(hospitals, tmp_path, call):
    schema = mark(hospitals, LABELS)
    expected = in_process(hospitals, schema)
    learn(hospitals, tmp_path, LocalEngine(hospitals.handlers()))
    hospitals.close()
    for name, folder in hospitals.folders.items():
        out = tmp_path / "read" / name
        code, text, _ = call("site", "result", "--dir", folder.path, "--out", out)
        assert code == 0
        for label, chosen in expected.finding.features.items():
            if chosen:
                assert f"{label}: {', '.join(own.feature for own in chosen)}" in text
        assert (out / "features.csv").read_text("utf-8").startswith("label,rank,feature,")
    again = ("site", "result", "--dir", folder.path, "--out", out)
    code, _, error = call(*again)
    assert (code, "holds the result of another run" in error) == (1, True), error
    assert call(*again, "--force")[0] == 0


def test_a_run_goes_on_after_a_crash_and_still_knows_the_labels(hospitals, tmp_path):
    schema = mark(hospitals, LABELS)
    handlers = hospitals.handlers()
    with pytest.raises(CrashError):
        learn(hospitals, tmp_path, CrashingEngine(handlers, "secure", 3))
    result, _ = learn(hospitals, tmp_path, LocalEngine(handlers))
    expected = in_process(hospitals, schema)
    assert [r.aggregate for r in result.rounds] == [r.aggregate for r in expected.rounds]


def test_positions_of_labels_leave_only_for_algorithms_that_need_them(hospitals, tmp_path):
    mark(hospitals, LABELS)
    session = hospitals.session(hospitals.handlers(), journal=Journal(tmp_path / "journal.jsonl"))
    outcome_over(session)
    assert session.labels == ()
    for name in hospitals.folders:
        assert not any("label-positions" in kind for kind in hospitals.kinds(name))


def test_without_a_label_the_coordinator_says_so(hospitals, tmp_path):
    with pytest.raises(SchemaError, match="label"):
        learn(hospitals, tmp_path, LocalEngine(hospitals.handlers()))
