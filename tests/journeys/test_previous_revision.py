"""Files that an earlier revision wrote are read, verified and understood by this one.

``golden/revision-0.1`` holds a result folder of every algorithm, its ledgers compressed, the folder
of a site without its key and data, and the journal of a coordinator's crashed run.
"""

import csv
import gzip
import json
import shutil
from pathlib import Path

import msgspec
import pytest
from markupsafe import escape

from cipherdag.errors import DifferencingError, OutputError
from cipherdag.findings.graph import LearntGraph
from cipherdag.protocol.journal import Journal
from cipherdag.results.folder import read_run_toml, verify_folder
from cipherdag.results.run import Run
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.policy.usage import TestBudget
from cipherdag.sites.record.ledger import ledger_lines, read_releases, verify_ledger
from cipherdag.sites.record.opened_sums import OpenedSum, OpenedSums
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings
from cipherdag.sites.study.study import SignedStudy, check_study
from cipherdag.sites.study.study_files import read_file
from cipherdag.sites.table.schema import Schema

GOLDEN = Path(__file__).parents[1] / "support" / "golden" / "revision-0.1"
GRAPHS = {"fedpc": 5, "fedpc-pooled": 5, "rfcd": 2, "fedcd": 0}  # and their edges
RESULTS = (*GRAPHS, "fedcmfs")
IDENTITY = "8379bd95cd4c13404c79884ab47115a25ccc7e11a24c4de4c922f1fc91b02b5b"


@pytest.fixture
def golden(tmp_path):
    """A copy of all, its ledgers as they were written."""
    folder = tmp_path / "revision-0.1"
    shutil.copytree(GOLDEN, folder)
    for packed in folder.glob("*/releases/*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    return folder


def altered(path, line):
    """One character of a line's content is another one, in a file that is still JSON."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    at = lines[line].index('"bytes":') + len('"bytes":')
    digit = str((int(lines[line][at]) + 1) % 10)
    lines[line] = lines[line][:at] + digit + lines[line][at + 1 :]
    path.write_text("".join(lines), "utf-8")


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_folder_verifies_and_is_told_in_sentences(golden, call, name):
    folder = golden / name
    code, out, err = call("audit", "verify", folder)
    assert (code, err) == (0, "")
    assert out.count("unbroken, signed") == 3
    assert [head.site for head in verify_folder(folder).values()] == ["site-1", "site-2", "site-3"]
    code, out, err = call("audit", "show", folder)
    assert (code, err) == (0, "")
    assert all(f"site-{number}" in out for number in (1, 2, 3))
    assert read_run_toml(folder / "run.toml")["algorithm"] == name.split("-")[0]
    report = json.loads((folder / "result.json").read_text("utf-8"))
    assert list(Schema.load(folder / "schema.toml").names) == list(report["variables"])


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_shown_as_it_was_written(golden, call, name):
    with (golden / name / "edges.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == GRAPHS[name]
    code, out, err = call("graph", "show", golden / name)
    assert (code, err) == (0, "")
    assert out.split("\n")[: len(rows)] == [f"{r['from']} {r['mark']} {r['to']}" for r in rows]
    assert len(Run.load(golden / name, LearntGraph).finding.graph.edges) == len(rows)
    code, out, _ = call("graph", "compare", golden / name, golden / name, "--json")
    assert (code, json.loads(out)["shd"]) == (0, 0)


@pytest.mark.parametrize("name", RESULTS)
def test_a_report_is_written_anew_from_what_was_saved(golden, call, name):
    folder = golden / name
    loaded = Run.load(folder)
    before = json.loads((folder / "result.json").read_text("utf-8"))
    now = json.loads(json.dumps(loaded.to_dict()))
    learnt = ("metrics", "metrics_cpdag")  # the truth is not saved
    assert {key: now[key] for key in before if key not in learnt} == {
        key: own for key, own in before.items() if key not in learnt
    }
    code, _, err = call("report", folder)
    assert (code, err) == (0, "")
    page = (folder / "report.html").read_text("utf-8")
    assert all(str(escape(sentence)) in page for sentence in loaded.disclosures)
    assert "unbroken and signed" in page


def test_a_site_s_ledger_verifies_against_the_pinned_identity(golden, call, tmp_path):
    site = golden / "site"
    study = check_study(read_file(site / "study.json", SignedStudy))
    assert study.pinned["hospital-0"].hex() == IDENTITY
    lines = ledger_lines((site / "ledger.jsonl").read_text("utf-8"))
    head = verify_ledger(lines, identity=IDENTITY)
    assert (head.site, head.records) == ("hospital-0", 6)
    code, out, err = call("audit", "verify", site, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["hospital-0"]["hash"] == head.hash
    page = tmp_path / "register.html"
    code, _, err = call("audit", "export", site, "--format", "html", "--out", page)
    assert (code, err) == (0, "")
    assert "hospital-0" in page.read_text("utf-8")


@pytest.mark.parametrize("line", range(6))
def test_one_changed_byte_of_a_site_s_ledger_is_found(golden, call, line):
    altered(golden / "site" / "ledger.jsonl", line)
    code, _, err = call("audit", "verify", golden / "site")
    assert code != 0
    assert f"line {line + 1}" in err


def test_a_site_s_settings_policy_and_schema_read(golden):
    site = golden / "site"
    assert SiteSettings.load(site / "site.toml") == SiteSettings(name="hospital-0", device="cpu")
    policy = Policy.load(site / "policy.toml")
    assert policy.min_cell_size == 11
    assert policy.algorithms == {"fedpc", "fedcmfs", "fedcd", "rfcd"}
    assert Policy.loads(policy.dumps()) == policy
    assert len(Schema.load(site / "schema.toml").names) == 5
    folder = SiteFolder(site)
    assert folder.policy() == policy
    assert folder.schema_path(folder.settings()).exists()


def test_a_site_remembers_which_sums_were_opened(golden):
    site = golden / "site"
    canonical = Schema.load(site / "schema.toml").canonical()
    lines = (site / "sums.jsonl").read_bytes().splitlines()
    assert msgspec.json.decode(lines[0], type=OpenedSum).content
    sums = OpenedSums(canonical, site / "sums.jsonl")
    sums.check_complete(read_releases((site / "ledger.jsonl").read_text("utf-8").splitlines()))
    change = sums.change(bytes(16), ["hospital-0", "hospital-1"])
    assert change is not None
    assert change.differing == ("hospital-2",)
    assert sums.runs(but=bytes(16)) > 0  # the canonical schema has the digest that it had
    with pytest.raises(DifferencingError, match="opened before"):
        sums.check(bytes(16), ["hospital-0", "hospital-1"], fewest=3)


def test_a_site_counts_on_from_the_tests_of_the_day(golden):
    path = golden / "site" / "usage.json"
    budget = TestBudget(Policy(), path, clock=lambda: "2026-11-22")
    budget.spend(1)
    budget.save()
    assert json.loads(path.read_text("utf-8")) == {"day": "2026-11-22", "tests": 85}


def test_a_coordinator_s_journal_is_said_to_be_of_another_revision(golden):
    """Its run had questions that travelled; sites carry out plans only."""
    path = golden / "run" / "journal.jsonl"
    before = path.read_bytes()
    with pytest.raises(OutputError, match="a run that another revision of cipherdag began") as no:
        Journal(path)
    assert "Start a new run" in no.value.remedy
    assert path.read_bytes() == before


@pytest.mark.parametrize("cut", [1, 200, None])
def test_a_journal_that_was_cut_in_its_first_entries_is_told_apart(golden, cut):
    path = golden / "run" / "journal.jsonl"
    first, _, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(first + b"\n" + rest[:cut])
    with pytest.raises(OutputError, match="another revision"):
        Journal(path)
    path.write_bytes(rest)
    with pytest.raises(OutputError, match="is not the journal of a run"):
        Journal(path)
