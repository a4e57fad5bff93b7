"""Scripts: every command prints JSON that its published schema describes; failures, too."""

import json
import re

import adversary
import click
import jsonschema
import pytest
from documents import ROOT
from json_schema import FOR_PEOPLE, LIVE_ON, schema

from cipherdag import Federation, FedPC
from cipherdag.cli.main import cli
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.enrolment import activate, request_enrolment
from cipherdag.errors import PolicyRefusedError
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings

OF_ALGORITHMS = ("run", "simulate", "coordinator run", "coordinator plan")
SITES = ("north", "south", "west")
SCHEMA = json.loads(json.dumps(schema()))


def commands(command=cli, words=()):
    """Every command by its words, and its options."""
    context = click.Context(command, info_name=" ".join(words))
    if not isinstance(command, click.Group):
        yield " ".join(words), {name for each in command.get_params(context) for name in each.opts}
        return
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), (*words, name))


def by_schema(words):
    return next((each for each in OF_ALGORITHMS if words.startswith(f"{each} ")), words)


def test_every_command_with_a_result_prints_json_and_has_a_schema():
    options = dict(commands())
    for words, each in options.items():
        assert ("--json" in each) == (words not in LIVE_ON | FOR_PEOPLE), words
    assert {by_schema(words) for words in options} - LIVE_ON - FOR_PEOPLE == {*SCHEMA["commands"]}


def test_the_page_has_the_schema_of_this_version():
    page = (ROOT / "docs" / "reference" / "json.md").read_text("utf-8")
    (published,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert json.loads(published) == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def valid(words, text, *, lines=False):
    """What a command printed, held against its schema."""
    part = {"$defs": SCHEMA["$defs"], **SCHEMA["commands"][words]}
    values = [json.loads(each) for each in (text.splitlines() if lines else [text])]
    for value in values:
        jsonschema.validate(value, part)
    return values[-1] if values else None


@pytest.fixture
def printed(call):
    def run(*words, of, lines=False, code=0):
        got, out, err = call(*words, "--json")
        assert got == code, err
        return valid(of, out, lines=lines)

    return run


def test_a_run_from_files_to_an_exported_graph(printed, tmp_path):
    files = []
    for k, name in enumerate(SITES):
        files.append(tmp_path / f"{name}.csv")
        adversary.patients(adversary.ROWS[k], k).to_csv(files[-1], index=False)
    draft, result = tmp_path / "schema.toml", tmp_path / "result"
    drafted = printed("schema", "infer", *files, "--out", draft, of="schema infer")
    assert drafted["schema"] == draft.read_text("utf-8")
    merged = printed("schema", "merge", draft, draft, of="schema merge")
    assert merged["wrote"] is None
    printed("schema", "diff", draft, draft, of="schema diff")
    ran = ("run", "fedpc", *files, "--schema", draft, "--out", result)
    last = printed(*ran, of="run", lines=True)
    assert last["result"] == json.loads((result / "result.json").read_text("utf-8"))
    shown = printed("graph", "show", result, of="graph show")
    assert len(shown["edges"]) == len(last["result"]["edges"])
    out = tmp_path / "graph.csv"
    exported = printed(
        "graph", "export", result, "--format", "csv", "--out", out, of="graph export"
    )
    assert exported == {"wrote": str(out)}
    printed("graph", "compare", result, out, of="graph compare")
    variables = [*last["result"]["variables"]]
    asked = ("--treatment", variables[0], "--outcome", variables[1])
    printed("graph", "identify", result, *asked, of="graph identify")
    printed("report", result, of="report")
    printed("audit", "verify", result, of="audit verify")
    printed("audit", "show", result, of="audit show", lines=True)
    saved = ("audit", "export", result, "--format", "csv", "--out", tmp_path / "left.csv")
    assert printed(*saved, of="audit export")["records"] > 0
    bundled = ("audit", "bundle", result, "--out", tmp_path / "bundle.zip")
    assert printed(*bundled, of="audit bundle")["files"] > 0
    printed("audit", "verify", tmp_path / "bundle.zip", of="audit verify")


def test_a_study_from_its_folders_to_a_decision(printed, call, tmp_path):
    (tmp_path / "share").mkdir()
    lead = ("--dir", tmp_path / "coordinator")
    made = printed(
        "coordinator", "new", *lead, "--study", "study", "--engine", "files",
        "--files", tmp_path / "share", of="coordinator new",
    )  # fmt: skip
    requests, codes = [], []
    for k, name in enumerate(SITES):
        place = ("--dir", tmp_path / name)
        share = ("--files", tmp_path / "share" / name, "--algorithm", "fedpc")
        printed("site", "new", name, *place, *share, of="site new")
        adversary.patients(adversary.ROWS[k], k).to_csv(tmp_path / name / "data.csv", index=False)
        draft = ("schema", "infer", tmp_path / name / "data.csv")
        printed(*draft, "--out", tmp_path / name / "schema.toml", of="schema infer")
        asked = printed("site", "request", *place, of="site request")
        requests.append(asked["wrote"])
        codes += ["--code", asked["code"]]
    approved = printed("coordinator", "approve", *requests, *codes, *lead, of="coordinator approve")
    assert approved["sites"] == 3
    for name in SITES:
        words = ("site", "activate", approved["send"][name], "--code", made["code"])
        done = printed(*words, "--dir", tmp_path / name, of="site activate")
        assert done["study"] == "study"
    listed = printed("coordinator", "sites", *lead, of="coordinator sites")
    assert [each["site"] for each in listed["sites"]] == [*SITES]
    plan = tmp_path / "plan.json"
    planned = ("coordinator", "plan", "fedpc", "--purpose", "Why?", *lead, "--out", plan)
    assert printed(*planned, of="coordinator plan")["wrote"] == str(plan)
    north = ("--dir", tmp_path / "north")
    checked = ("site", "check", "--plan", plan, *north)
    code, out, err = call(*checked, "--json")
    valid("site check", out)
    if code:
        failed = json.loads(err.splitlines()[-1])
        jsonschema.validate(failed, {"$defs": SCHEMA["$defs"], **SCHEMA["failure"]})
    printed("site", "status", *north, of="site status")
    printed("site", "releases", *north, of="site releases", lines=True)
    printed(
        "site", "knowledge", "--forbid", "Theft", "Theatre", "--out", tmp_path / "knowledge.toml",
        *north, of="site knowledge",
    )  # fmt: skip
    revoked = printed("coordinator", "revoke", "west", *lead, of="coordinator revoke")
    assert revoked["sites"] == 2


def test_a_person_s_decision_on_a_plan(printed, tmp_path):
    coordinator, sites = enrolled(tmp_path)
    for decision, more in (("approve", ()), ("deny", ("--why", "not now"))):
        plan = Federation.connect(coordinator.path, purpose="Why?").plan(FedPC(), seed=len(more))
        with pytest.raises(PolicyRefusedError):
            sites[0].approvals().check(plan)
        words = ("site", decision, plan.session.hex()[:8], *more, "--dir", sites[0].path)
        done = printed(*words, of=f"site {decision}")
        assert done["decision"] == {"approve": "approved", "deny": "denied"}[decision]
        printed("site", "status", "--dir", sites[0].path, of="site status")


def enrolled(tmp_path):
    (tmp_path / "share").mkdir()
    coordinator = CoordinatorFolder.create(
        tmp_path / "coordinator", study="study", engine="files", files=str(tmp_path / "share")
    )
    sites = []
    for k, name in enumerate(SITES):
        settings = SiteSettings(name=name, files=str(tmp_path / "share" / name))
        sites.append(SiteFolder.create(tmp_path / name, settings))
        adversary.patients(adversary.ROWS[k], k).to_csv(sites[-1].path / "data.csv", index=False)
    approvals = coordinator.approve([request_enrolment(site)[0] for site in sites])
    for site in sites:
        activate(site, approvals[site.settings().name], code=coordinator.fingerprint)
    return coordinator, sites


def test_a_failure_is_one_line_of_json_with_its_remedy(call, tmp_path):
    (tmp_path / "empty.csv").write_text("", "utf-8")
    code, out, err = call("schema", "infer", tmp_path / "empty.csv", "--json")
    assert (code, out) == (6, "")
    (line,) = err.splitlines()
    jsonschema.validate(json.loads(line), {"$defs": SCHEMA["$defs"], **SCHEMA["failure"]})
    assert json.loads(line)["exit_code"] == 6
    assert json.loads(line)["remedy"]


def test_every_link_of_the_page_for_agents_leads_to_a_page():
    text = (ROOT / "docs" / "llms.txt").read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 8
    for link in links:
        assert (ROOT / "docs" / link).is_file(), link
