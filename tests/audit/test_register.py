"""The record of processing at a site: what its folder says, and nothing that it does not."""

import csv
import io
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import adversary
import msgspec
import pytest
from asked_plans import SITES, plan_of
from bundled_runs import approved_run

from cipherdag import FedPC
from cipherdag.audit.register import register, register_csv, register_lines
from cipherdag.errors import LedgerError, PolicyRefusedError
from cipherdag.pages.files import without_shield
from cipherdag.pages.language import LANGUAGES, language
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.questions.disclosure import sentences
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.approvals import Approvals, Person
from cipherdag.sites.policy.plan_readers import of_colluding_sites
from cipherdag.sites.record.ledger import Ledger, read_releases
from cipherdag.sites.record.run_record import RunRecord
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings
from cipherdag.sites.table.schema import Schema

WEBER = Person("A. Weber", "data protection")


@pytest.fixture(scope="module")
def approved(tmp_path_factory):
    return SiteFolder(approved_run(tmp_path_factory.mktemp("approved")).site())


@pytest.fixture
def site(tmp_path):
    """A site of which no run asked yet."""
    settings = SiteSettings(name="hospital-0", organisation="Charite", study="lipids")
    return SiteFolder.create(tmp_path / "site", settings)


def asks(site, **changes):
    """A plan asks at a site."""
    plan = plan_of(FedPC(), sites=SITES[:3], **changes)
    with pytest.raises(PolicyRefusedError):
        site.approvals().check(plan)
    return plan


def content(site):
    return {path: path.read_bytes() for path in site.path.rglob("*") if path.is_file()}


def said(site, code="en"):
    return "\n".join(register_lines(register(site, language(code)), language(code)))


def test_a_run_is_registered_with_all_that_the_article_asks_for(approved):
    before = content(approved)
    (run,) = register(approved)
    assert content(approved) == before
    assert (run.requester, run.purpose) == ("Dr. A. Scientist", "a test")
    assert (run.algorithm, run.protection, run.study) == ("fedpc", "masking", "study")
    assert run.columns == Schema.load(approved.path / "schema.toml").names
    assert run.recipients == ("hospital-1", "hospital-2")
    assert (run.decision, run.signed, run.refusals, run.refused_because) == (
        "approved",
        True,
        0,
        "",
    )
    (decision,) = run.decisions
    assert (decision.name, decision.role) == WEBER
    assert decision.when == run.asked
    assert of_colluding_sites(3) in run.could_learn
    assert run.measures == "Answers leave masked: only their sum over sites can be read."


def test_what_was_disclosed_is_what_the_ledger_and_the_plan_say(approved):
    (run,) = register(approved)
    lines = approved.ledger_path.read_text("utf-8").splitlines()
    records = [json.loads(line)["release"] for line in lines]
    answered = [each for each in records if each.get("question")]
    assert run.values == sum(each["values"] for each in answered)
    assert run.rounds == max(each["round"] for each in records)
    assert run.began == answered[0]["time"]
    assert run.ended == records[-1]["time"]
    *opened, set_up = run.disclosed
    assert set(opened) <= {*sentences(FedPC().disclosures())}
    assert set_up == "All see whether the rows are those of an earlier run."
    assert run.disclosed[0] == (
        "Exact sums over all sites: the number of rows; how many categories columns have."
    )


def test_columns_of_a_changed_schema_are_not_named(approved):
    path = approved.path / "schema.toml"
    schema = path.read_bytes()
    path.write_bytes(schema.replace(b"[columns.Theft]", b"[columns.Thefts]"))
    try:
        (run,) = register(approved)
        assert run.columns == ()
        assert "not known, as the run's schema is not here" in said(approved)
        path.unlink()
        assert register(approved)[0].columns == ()
    finally:
        path.write_bytes(schema)
    assert "Theft" in register(approved)[0].columns


def test_a_column_that_the_site_lacks_is_not_of_the_run(site):
    schema = infer_schema([adversary.patients(300, 0)]).dumps()
    (site.path / "schema.toml").write_text(schema, "utf-8")
    names = Schema.load(site.path / "schema.toml").names
    ours = [msgspec.structs.replace(each, lacking=(1,)) for each in SITES[:3]]
    plan = plan_of(FedPC(), sites=(*ours, *SITES[3:]))
    with pytest.raises(PolicyRefusedError):
        site.approvals().check(plan)
    (run,) = register(site)
    assert run.columns == (names[0], *names[2:])


def test_decisions_of_every_kind_are_told_from_one_another(site):
    key, long_ago = site.identity(), datetime.now(UTC) - timedelta(days=30)
    denied, waiting = asks(site, purpose="one"), asks(site, purpose="two")
    reason = "our board meets in May"
    site.approvals().decide(denied.session.hex(), "denied", key, WEBER, note=reason, language="de")
    expired = plan_of(FedPC(), sites=SITES[:3], purpose="three")
    with suppress(PolicyRefusedError):
        Approvals(site.runs, key.public, lambda: long_ago).check(expired)
    automatic = plan_of(FedPC(), sites=SITES[:3], purpose="four")
    RunRecord(site.runs / automatic.session.hex()).begin(automatic)
    refused = plan_of(FedPC(), sites=SITES[:3], purpose="five")
    ledger = Ledger("hospital-0", key, path=site.ledger_path)
    about = {"session": refused.session, "algorithm": "fedpc", "protection": "masking"}
    for why in ("it asks for sums", ""):
        ledger.append(kind="refusal", content=b"no", question=why, **about)
    forged = f"refused the plan of run {refused.session.hex()[:8]}: no reason\n"
    site.log_path.write_text(forged, "utf-8")
    runs = {run.run: run for run in register(site)}
    states = {
        plan.purpose: runs[plan.session.hex()].decision
        for plan in (denied, waiting, expired, automatic)
    }
    assert states == {"one": "denied", "two": "waits", "three": "expired", "four": "undecided"}
    gone = runs[refused.session.hex()]
    assert (gone.decision, gone.refusals, gone.purpose) == ("refused", 2, "")
    assert gone.refused_because == "it asks for sums"
    assert [each.why for each in runs[denied.session.hex()].decisions] == [reason]
    assert [each.language for each in runs[denied.session.hex()].decisions] == ["de"]
    text = said(site)
    for sentence in (
        f"Denied because: {reason}",
        "It waits for a decision.",
        "It expired without a decision.",
        "No person's decision is here: by its policy the site asked nobody.",
        "This site's program refused it, and asked nobody.",
        "Refused because: it asks for sums",
        "2 refusals.",
        "Nothing was disclosed.",
        "Controller: Charite. Study: lipids.",
    ):
        assert f"  {sentence}\n" in f"{text}\n"


def test_a_decision_that_the_site_s_key_did_not_sign_is_marked(site):
    plan = asks(site)
    site.approvals().decide(plan.session.hex(), "approved", SigningIdentity.generate(), WEBER)
    (run,) = register(site)
    assert (run.decision, run.signed) == ("approved", False)
    assert "LOOK: this site's key did not sign these decisions." in said(site)


def test_a_ledger_that_was_cut_into_registers_nothing(approved, tmp_path):
    whole = approved.ledger_path.read_bytes()
    lines = whole.splitlines(keepends=True)
    approved.ledger_path.write_bytes(b"".join(lines[:2] + lines[3:]))
    try:
        with pytest.raises(LedgerError):
            register(approved)
    finally:
        approved.ledger_path.write_bytes(whole)
    assert len(read_releases(whole.decode().splitlines())) == len(lines)


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_register_says_the_same_runs_in_every_language(approved, code):
    english, translated = said(approved), said(approved, code)
    assert len(english.splitlines()) == len(translated.splitlines())
    assert "A. Weber (data protection)" in translated
    if code == "de":
        assert "Kategorien personenbezogener Daten: Cholesterol, " in translated
        assert "Verantwortlicher: " in translated


def test_a_spreadsheet_computes_nothing_of_what_others_wrote(site):
    purpose = 'with "quotes", and a comma; =A1+"x";"=A1+"";@SUM(1);\uff1dA1'
    asks(site, requester="=HYPERLINK(1)", purpose=purpose)
    text = register_csv(register(site))
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["requester"] == "'=HYPERLINK(1)"
    assert without_shield(row["purpose"]) == purpose
    as_in_europe = [cell for line in csv.reader(io.StringIO(text), delimiter=";") for cell in line]
    assert not [cell for cell in as_in_europe if cell.lstrip(' "')[:1] in {*"=+-@\t\r\uff1d"}]
    assert row["recipients"] == "hospital-1; hospital-2"


def test_the_command_prints_or_writes_the_register(call, approved, tmp_path):
    about = ("--dir", approved.path)
    code, text, _ = call("site", "register", *about)
    assert (code, text) == (0, f"{said(approved)}\n")
    assert "Verantwortlicher: " in call("site", "register", "--language", "de", *about)[1]
    (run,) = json.loads(call("site", "register", "--json", *about)[1])
    assert (run["purpose"], run["decisions"][0]["name"]) == ("a test", "A. Weber")
    out = tmp_path / "register.csv"
    code, text, _ = call("site", "register", "--out", out, *about)
    assert (code, text) == (0, f"Wrote 1 run to {out}\n")
    (row,) = csv.DictReader(io.StringIO(out.read_text("utf-8")))
    assert row["run"] == run["run"]
    assert call("site", "register", "--out", out, *about)[0] == 1
    code, text, _ = call("site", "register", "--out", out, "--force", "--json", *about)
    assert json.loads(text) == {"wrote": str(out), "records": 1}


def test_a_site_without_runs_has_an_empty_register(call, site):
    assert register(site) == []
    code, text, _ = call("site", "register", "--json", "--dir", site.path)
    assert (code, json.loads(text)) == (0, [])
