"""Files of every version are read by this one, as ``docs/reference/compatibility.md`` promises."""

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest
from documents import ROOT

from cipherdag.protocol.plan import Plan
from cipherdag.results.folder import verify_folder
from cipherdag.results.run import Run
from cipherdag.results.sentences import release_lines
from cipherdag.sites.policy.plan_account import plan_lines
from cipherdag.sites.record.ledger import read_releases
from cipherdag.sites.table.schema import Schema

VERSIONS = sorted((Path(__file__).parents[1] / "support" / "golden").glob("version-*"))
RESULTS = sorted(file.parent for each in VERSIONS for file in each.glob("*/result.json"))


def named(path):
    return "/".join(path.parts[-2:])


def test_this_version_has_its_files_and_its_upgrade_notes():
    assert f"version-{version('cipherdag')}" in {each.name for each in VERSIONS}
    page = (ROOT / "docs" / "reference" / "compatibility.md").read_text("utf-8")
    for each in VERSIONS:
        assert f"### {each.name.removeprefix('version-')}" in page


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda path: path.name)
def test_a_plan_is_read_and_said_as_it_was_written(folder):
    plan = Plan.read(folder / "plan.json")
    assert json.loads(plan.dumps()) == json.loads((folder / "plan.json").read_text("utf-8"))
    assert f"asks for {plan.algorithm} at a, b, c." in plan_lines(plan)[0]


@pytest.mark.parametrize("folder", RESULTS, ids=named)
def test_a_ledger_verifies_and_every_record_has_a_sentence(folder):
    heads = verify_folder(folder)
    assert len(heads) == 3
    for site, head in heads.items():
        lines = (folder / "releases" / f"{site}.jsonl").read_text("utf-8").splitlines()
        records = read_releases(lines)
        assert len(records) == head.records
        assert len(release_lines({site: records})) > 3


def of_before(now, before):
    """What is now said of the entries that there were before, at any depth."""
    if isinstance(before, dict):
        return {key: of_before(now[key], before[key]) for key in before}
    if isinstance(before, list):
        return [of_before(*each) for each in zip(now, before, strict=True)]
    return now


@pytest.mark.parametrize("folder", RESULTS, ids=named)
def test_a_result_is_loaded_whole_and_reported_on(call, folder, tmp_path):
    before = json.loads((folder / "result.json").read_text("utf-8"))
    loaded = Run.load(folder)
    now = json.loads(json.dumps(loaded.to_dict()))
    assert of_before(now, before) == before
    assert loaded.lines()
    assert Schema.load(folder / "schema.toml").names == tuple(loaded.identifiers)
    copied = shutil.copytree(folder, tmp_path / "result")
    assert call("report", copied)[0] == 0
    assert (copied / "report.html").stat().st_size > 10_000
