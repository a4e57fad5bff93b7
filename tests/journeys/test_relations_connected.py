"""Columns that follow from others, over sites that are folders and a coordinator without names."""

import numpy as np
import pandas as pd
import pytest
from adversary import CrashError, CrashingEngine
from scripted import about

from cipherdag import Describe, FedPC, Schema
from cipherdag.cli.programs.site_status import plan_in_words
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.results.site_result import site_result
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.study.doctor import examine


@pytest.fixture
def hospitals(hospitals):
    """Sites with an age, a category cut from it, and what that causes; the schema says so."""
    hospitals.installed = True
    rng, tables = np.random.default_rng(4), {}
    for name in hospitals.folders:
        age = rng.uniform(5, 40, 500)
        income = np.where(age >= 18, 10.0, 0.0) + 5.0 * rng.normal(size=500)
        adult = np.where(age >= 18, "yes", "no")
        tables[name] = pd.DataFrame({"age": age, "adult": adult, "income": income})
    schema = infer_schema(list(tables.values()))
    for name, folder in hospitals.folders.items():
        tables[name].to_csv(folder.path / "data.csv", index=False)
        (folder.path / "schema.toml").write_text(schema.dumps(), encoding="utf-8")
    return hospitals


def learn(hospitals, tmp_path, engine, algorithm):
    return hospitals.learn(tmp_path / "runs" / algorithm.name, engine, algorithm)


def test_sites_and_coordinator_follow_the_schema_by_position(hospitals, tmp_path):
    handlers = hospitals.handlers()
    with pytest.raises(CrashError):
        learn(hospitals, tmp_path, CrashingEngine(handlers, "unmask", 1), FedPC())
    found = learn(hospitals, tmp_path, LocalEngine(handlers), FedPC())
    assert "'1' follows from '2'" in found.report.warnings[0]
    assert {own.source + own.target: own.status for own in found.finding.evidence.edges} == {
        "12": "tested",
        "13": "undone",
    }
    for name, folder in hospitals.folders.items():
        own = site_result(folder)
        assert "'adult' follows from 'age'" in own.report.warnings[0]
        assert {str(edge) for edge in own.finding.graph.edges} == {
            "adult --- age",
            "adult --- income",
        }
        assert hospitals.kinds(name)[2] == "schema-digest+relations"


def test_relations_stay_at_the_sites_where_no_graph_is_asked_for(hospitals, tmp_path):
    found = learn(hospitals, tmp_path, LocalEngine(hospitals.handlers()), Describe())
    assert found.relations == ()
    assert hospitals.kinds(next(iter(hospitals.folders)))[2] == "schema-digest"


def test_a_person_reads_what_the_coordinator_will_know(hospitals):
    folder = next(iter(hospitals.folders.values()))
    said = plan_in_words(folder, hospitals.plan(**about(FedPC())))
    assert any("determine one another: 1 relation of numbers 1, 2" in line for line in said)


def related(folder):
    found = examine(folder, rehearse=lambda _: None)
    return next(own for own in found if own.check == "related columns")


def test_relations_that_a_schema_lacks_or_has_in_vain_are_named(hospitals, caplog):
    name, folder = next(iter(hospitals.folders.items()))
    assert related(folder).state == "ok"
    path = folder.path / "schema.toml"
    schema = Schema.load(path)
    path.write_text(Schema(schema.columns).dumps(), "utf-8")
    assert related(folder).state == "warn"
    assert "not declared: 'adult' follows from 'age'" in related(folder).finding
    hospitals.open(name)
    assert "does not declare that 'adult' follows from 'age'" in caplog.text
    path.write_text(schema.dumps(), "utf-8")
    rows = pd.read_csv(folder.path / "data.csv")
    rows.loc[:9, "adult"] = rows.loc[:9, "adult"].map({"yes": "no", "no": "yes"})
    pd.concat([rows, rows.assign(adult=rows["adult"][::-1].to_numpy())]).to_csv(
        folder.path / "data.csv", index=False
    )
    assert "declared, and not so here" in related(folder).finding


def test_a_schema_with_other_relations_is_another_schema(hospitals):
    schema = Schema.load(next(iter(hospitals.folders.values())).path / "schema.toml")
    assert schema.canonical() != Schema(schema.columns).canonical()
