"""A plan from the coordinator's words to the sites' decisions: it waits, goes on, or is denied."""

import contextlib
import json
import logging
import re
import time
from types import SimpleNamespace

import adversary
import hospital_folders
import pytest
from documents import call
from driving import outcome_over
from scripted import about

from cipherdag import Federation, FedPC
from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.enrolment import activate, request_enrolment
from cipherdag.errors import CohortError, DifferencingError, ParameterError, PolicyRefusedError
from cipherdag.federation import connected
from cipherdag.protocol.engines.engine import LocalEngine
from cipherdag.protocol.messages import AWAITS, DENIED
from cipherdag.protocol.plan import Plan
from cipherdag.protocol.site_log import log_into
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.approvals import Person
from cipherdag.sites.session.serving import KeptSite
from cipherdag.sites.study.site_folder import SiteFolder, SiteSettings
from cipherdag.sites.table.schema import Schema

SITES = ("north", "south", "west")
MOST_OF_A_SUMMARY = 11  # ten lines, and the command that says all
PURPOSE = "Which causes of asthma do the three cohorts share?"
WHY = "our board meets in May"


class Deployment:
    """A coordinator and three sites as folders; `wait` is what people do while a run waits."""

    def __init__(self, folder):
        self.folder = folder
        self.waits = 0
        self.calls = 0
        self.people = []
        self.invites = []
        self.share = folder / "share"
        self.share.mkdir()
        self.coordinator = CoordinatorFolder.create(
            folder / "coordinator", study="study", engine="files", files=str(self.share)
        )
        tables = {n: adversary.patients(adversary.ROWS[k], k) for k, n in enumerate(SITES)}
        schema = infer_schema(list(tables.values())).dumps()
        self.sites = {name: self._site(name, tables[name], schema) for name in SITES}
        requests = [request_enrolment(site)[0] for site in self.sites.values()]
        for name, approval in self.coordinator.approve(requests).items():
            activate(self.sites[name], approval, code=self.coordinator.fingerprint)
        self.kept = {name: KeptSite(site.path) for name, site in self.sites.items()}

    def _site(self, name, table, schema):
        settings = SiteSettings(name=name, files=str(self.share / name), device="cpu")
        folder = SiteFolder.create(self.folder / name, settings)
        table.to_csv(folder.path / "data.csv", index=False)
        (folder.path / "schema.toml").write_text(schema, encoding="utf-8")
        return folder

    @contextlib.contextmanager
    def engine(self, *_, **__):
        """In the place of FLARE or files."""
        self.calls += 1
        yield LocalEngine({name: self._heard_by(name) for name in self.kept})

    def _heard_by(self, name):
        """The site's answers; invitations of the north are kept."""

        def handle(operation, message):
            if (operation, name) == ("invite", "north") and message not in self.invites:
                self.invites.append(message)
            return self.kept[name].handle(operation, message)

        return handle

    def sleep(self, _):
        """While the coordinator waits, the next of the people acts."""
        self.waits += 1
        assert self.people, "the run waits for nobody"
        self.people.pop(0)()

    def run(self, *words, code=0):
        """A command of the coordinator; what it prints."""
        got, said = call(["coordinator", *map(str, words), "--dir", str(self.coordinator.path)])
        assert got == code, said
        return said

    def site(self, name, *words, code=0):
        """A command of a site; what it prints."""
        got, said = call(["site", *map(str, words), "--dir", str(self.sites[name].path)])
        assert got == code, said
        return said

    def asked(self, name):
        """The digits of the run that waits at a site."""
        return re.search(r"run ([0-9a-f]{8})  WAITS", self.site(name, "status"))[1]

    def approve(self, *names):
        for name in names:
            self.site(name, "approve", self.asked(name))

    def edges(self, name, out):
        """The edges as a site reads them, by its own names."""
        self.site(name, "result", "--out", out / name)
        assert "<html" in (out / name / "report.html").read_text("utf-8")
        report = json.loads((out / name / "result.json").read_text("utf-8"))
        return sorted((edge["from"], edge["mark"], edge["to"]) for edge in report["edges"])

    def close(self):
        for kept in self.kept.values():
            kept.close()


@pytest.fixture
def deployment(tmp_path, monkeypatch):
    made = Deployment(tmp_path)
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=made.sleep)
    monkeypatch.setattr(connected, "time", clock)
    monkeypatch.setattr(connected, "study_engine", made.engine)
    yield made
    made.close()


RUN = ("run", "fedpc", "--purpose", PURPOSE, "--requester", "Dr. Okafor")


def test_knowledge_of_a_site_reaches_the_coordinator_by_number(deployment, tmp_path):
    schema = Schema.load(deployment.sites["north"].path / "schema.toml")
    first, second = schema.names[:2]
    file, plan = tmp_path / "knowledge.toml", tmp_path / "asked.plan"
    said = deployment.site("north", "knowledge", "--forbid", first, second, "--out", file)
    assert "--knowledge knowledge.toml" in said
    assert first not in file.read_text("utf-8")
    words = ("plan", "fedpc", "--purpose", PURPOSE)
    deployment.run(*words, "--knowledge", file, "--out", plan)
    for name in SITES:
        read = deployment.site(name, "check", "--plan", plan)
        assert f"Parameter knowledge is forbidden {first} {second}, usually none." in read
    near = deployment.site(
        "north", "knowledge", "--forbid", first, f"{second}x", "--out", tmp_path / "x.toml", code=2
    )
    assert f"Did you mean '{second}'?" in near
    by_name = tmp_path / "names.toml"
    by_name.write_text(f'forbidden = [["{first}", "{second}"]]', "utf-8")
    refused = deployment.run(*words, "--knowledge", by_name, code=2)
    assert "cipherdag site knowledge" in refused


def test_a_run_waits_for_people_who_read_it_and_then_goes_on(deployment, tmp_path):
    short, read = {}, {}

    def everybody_reads():
        for name in SITES:
            short[name] = deployment.site(name, "status")
            read[name] = deployment.site(name, "status", "--details")
        deployment.approve("north")

    def one_has_approved():
        assert f"run {session}  approved" in deployment.site("north", "status")
        deployment.approve("west", "south")

    def session_of(said):
        return re.search(r"run ([0-9a-f]{8})  WAITS", said)[1]

    def first():
        nonlocal session
        everybody_reads()
        session = session_of(read["north"])

    session = ""
    deployment.people = [first, one_has_approved]
    said = deployment.run(*RUN, "--out", tmp_path / "learnt")
    assert deployment.waits == 2
    assert f"cipherdag site approve {session}" in said
    for name in SITES:
        assert session_of(read[name]) == session_of(short[name]) == session
        summary = short[name].partition("WAITS")[2].splitlines()[1:]
        assert len(summary) <= MOST_OF_A_SUMMARY
        for sentence in (
            "Dr. Okafor asks for fedpc at north, south, west.",
            f"Purpose: {PURPOSE}",
            "On what: all 5 columns of the study's schema.",
            "What leaves: Exact sums over all sites: the number of rows",
            "whether a test says dependent",
            "Who sees it: everybody sees only what covers at least 3 of the 3 sites.",
            "Any two sites together could read the third one's numbers.",
            "What the result can show: a graph that says which of the study's variables",
            "Settings: all as usual.",
            "For how long: this site's policy ends the run after 1,000 rounds",
            "What differs from before: this site has approved no other run yet.",
            "Decide before ",
            f"cipherdag site status {session} --details",
        ):
            assert sentence in short[name], sentence
        assert "Disclosed: " not in short[name]
        assert "knowledge none" in read[name]
        for sentence in (
            "Dr. Okafor asks for fedpc at north, south, west.",
            f"Purpose: {PURPOSE}",
            "The result: a graph that says which of the study's variables probably cause which.",
            "A sum covers 3 of the 3 sites at least. The coordinator, even if one site helps it,",
            "All parameters are as usual: alpha 0.01, ",
            "Decide before ",
            f"`cipherdag site approve {session}`, or `cipherdag site deny {session} --why",
            "sees bits and sums only. All sites see the same.",
            "Answers that bits are computed from leave in sealed parts: only the bits are read.",
            "Disclosed: ",
            "The first sums: ",
            "This site's policy ends it after 1,000 rounds",
        ):
            assert sentence in read[name], sentence
    data = {name: own.path / "data.csv" for name, own in deployment.sites.items()}
    schema = deployment.sites["north"].path / "schema.toml"
    expected = Federation.simulate(data, schema=schema, device="cpu").run(FedPC()).to_dict()
    found = [deployment.edges(name, tmp_path / "own") for name in SITES]
    assert found[0]
    assert found[0] == found[1] == found[2]
    assert found[0] == sorted((e["from"], e["mark"], e["to"]) for e in expected["edges"])
    learnt = json.loads((tmp_path / "learnt" / "result.json").read_text("utf-8"))
    assert {e["from"] for e in learnt["edges"]} <= set("12345")
    assert len(learnt["edges"]) == len(found[0])


@pytest.fixture
def logged(deployment):
    """The log of the north's process, as `site start` has it."""
    path = deployment.sites["north"].log_path
    log_into(path)
    coordinator = logging.getLogger("cipherdag.waiting")
    coordinator.disabled = True  # it has another process
    yield lambda: path.read_text("utf-8").splitlines()
    coordinator.disabled = False


def test_a_waiting_plan_is_logged_once_and_again_as_it_begins(deployment, logged):
    """A coordinator asks again and again; three sites share this process, and so its log."""
    waited = []

    def nobody():
        waited.append(logged())

    deployment.people = [nobody] * 6 + [lambda: deployment.approve(*SITES)]
    deployment.run(*RUN)
    assert len(waited) == 6
    (line,) = waited[-1]
    assert re.search(r" run [0-9a-f]{8} does not begin yet: ", line)
    assert "the run waits until a person of this site approves it" in line
    assert "Read it with `cipherdag site status`, then `cipherdag site approve " in line
    left = deployment.site("north", "releases", "--details")
    assert left.count("the plan waits for a decision of this site") == 1  # of seven times
    assert "refusal" not in left
    after = logged()[1:]
    assert re.search(r"\d+ times more in \d+ s: run [0-9a-f]{8} does not begin yet: ", after[0])
    assert [line.split(" ", 4)[4].split(" ", 2)[2] for line in after if " INFO " in line] == [
        *["begins: fedpc"] * 3,
        *["has ended"] * 3,
    ]


def test_a_coordinator_asks_each_second_or_as_slowly_as_answers_come(monkeypatch):
    """Seconds that pass are counted here, so that a slow machine changes nothing."""
    now, pauses, takes = [0.0], [], iter([0.2, 0.0, 7.0, 0.1])

    def sleep(seconds):
        pauses.append(seconds)
        now[0] += seconds

    def opened():
        now[0] += next(takes)
        raise PolicyRefusedError(DENIED if len(pauses) == 3 else AWAITS, site="west")

    monkeypatch.setattr(connected, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    waiting = SimpleNamespace(approval_s=3600.0)
    with pytest.raises(PolicyRefusedError, match=DENIED):
        connected.ConnectedFederation._open(waiting, SimpleNamespace(open=opened))
    assert pauses == pytest.approx([1.0, 1.0, 7.0])


def test_a_coordinator_that_only_asks_fills_no_ledger(deployment):
    """Nor two plans that wait by turns: each word stands there, and leaves as often as asked."""
    for seed in (1, 2):
        deployment.run(*RUN, "--seed", seed, "--wait-for-approval", 0, code=3)
    kept, path = deployment.kept["north"], deployment.sites["north"].ledger_path
    before = len(path.read_text("utf-8").splitlines())
    turns = [kept.handle("invite", deployment.invites[k % 2]) for k in range(150)]
    assert len(path.read_text("utf-8").splitlines()) <= before + 2
    assert len({*turns}) == 2
    assert b"" not in turns


def test_what_became_of_every_plan_is_said_in_a_line_each(deployment, tmp_path):
    """One is carried out, one is denied, and the policy refuses one, whose reason is said."""
    deployment.people = [lambda: deployment.approve(*SITES)]
    deployment.run(*RUN)
    done = json.loads(deployment.site("north", "status", "--json"))["runs"][0]["session"][:8]
    assert f"run {done}  finished" in deployment.site("north", "status")
    deployment.run(*RUN, "--seed", 1, "--wait-for-approval", 0, code=3)
    denied = deployment.asked("north")
    deployment.site("north", "deny", denied, "--why", WHY)
    deployment.run("run", "fedpc", "--purpose", PURPOSE, "--reveal", "sums", code=3)
    status = deployment.site("north", "status")
    assert f"run {done}  finished" in status
    assert f"run {denied}  denied" in status
    (refused,) = re.findall(
        r"^refused plans +run (\w{8}) of .*, fedpc: (.+)$", status, re.MULTILINE
    )
    assert "policy" in refused[1]
    lines = deployment.site("north", "releases").splitlines()
    assert [line.split(",")[0] for line in lines[:-1]] == [
        f"Run {each}" for each in (done, denied, refused[0])
    ]
    ends = [line.rpartition("; ")[2] for line in lines[:-1]]
    assert ends[0] == "finished."
    assert ends[2] == f"refused: {refused[1]}."
    assert re.search(r"FedPC: \d+ records, \d+ rounds, [\d.]+ kB; finished", lines[0])
    folded = deployment.site("north", "releases", done)
    whole = deployment.site("north", "releases", "--details")
    assert folded.splitlines()[0] in whole
    assert len(lines) < len(folded.splitlines()) < len(whole.splitlines())
    assert refused[1][1:] in whole
    code, shown = call(["audit", "show", str(deployment.sites["north"].path)])
    assert code == 0
    assert whole.strip() in shown


def test_who_waits_for_people_is_told_once_which_site(deployment, caplog):
    deployment.people = [lambda: None] * 3 + [lambda: deployment.approve(*SITES)]
    with caplog.at_level(logging.INFO, "cipherdag.waiting"):
        deployment.run(*RUN)
    (told,) = (own.message for own in caplog.records if own.name == "cipherdag.waiting")
    assert told.startswith("site 'north': the run waits until a person of this site approves it")


def test_a_decided_plan_is_shown_in_short_and_in_full_if_asked(deployment):
    deployment.run(*RUN, "--wait-for-approval", 0, code=3)
    session = deployment.asked("north")
    waits = deployment.site("north", "status")
    assert "What leaves: " in waits
    assert "In full: " not in waits
    assert "Disclosed: " in deployment.site("north", "status", "--details")
    deployment.site("north", "deny", session, "--why", WHY)
    short = deployment.site("north", "status")
    assert "What leaves: " not in short
    for line in ("Dr. Okafor asks for fedpc", PURPOSE, WHY, f"cipherdag site status {session}"):
        assert line in short
    assert "What leaves: " in deployment.site("north", "status", session)
    whole = deployment.site("north", "status", session, "--details")
    assert "Disclosed: " in whole
    assert whole.startswith(f"run {session}  denied  asked ")
    assert WHY in whole
    assert json.loads(deployment.site("north", "status", session, "--json"))["state"] == "denied"
    deployment.site("north", "status", "ffffffff", code=2)
    assert "waited for a decision here" in deployment.site("north", "releases")
    left = deployment.site("north", "releases", session)
    assert "Set-up, FedPC: word that the plan waits for a decision of this site (" in left


def test_a_denial_ends_the_run_and_its_reason_stays_at_the_site(deployment):
    """The last of the cohort denies while the others have not decided yet."""
    deployment.people = [
        lambda: deployment.site("west", "deny", deployment.asked("west"), "--why", WHY)
    ]
    said = deployment.run(*RUN, code=3)
    assert "PolicyRefusedError at site 'west'." in said
    assert f"  cause   {DENIED}\n" in said
    assert "  do      Ask the people of the site: it does not send their reason." in said
    assert "cipherdag coordinator run --resume" in said
    assert WHY not in said
    status = deployment.site("west", "status")
    assert f"Denied because: {WHY}" in status
    assert "  denied  " in status
    for path in deployment.folder.rglob("*"):
        if path.is_file() and "west" not in path.relative_to(deployment.folder).parts:
            assert WHY not in path.read_text("utf-8", errors="replace"), path
    assert "WAITS" in deployment.site("north", "status")
    (run,) = deployment.coordinator.runs.iterdir()
    got, said = call(["coordinator", "run", "--resume", str(run)])
    assert (got, DENIED in said) == (3, True)
    assert deployment.waits == 1
    for name in SITES:
        assert "no run has taken place" in deployment.site(name, "result", code=1)


def test_a_denial_of_a_run_with_other_sites_is_one_too(tmp_path):
    """Subtraction is what the person was asked about; having decided, nobody waits any more."""
    names = tuple(f"hospital-{k}" for k in range(4))
    hospitals = hospital_folders.hospitals(tmp_path, names=names)
    hospitals.installed = True
    handlers = hospitals.handlers()
    first = hospitals.session(handlers, **about(FedPC(evidence="vote")))
    outcome_over(first)
    first.finish()
    second = hospitals.session(
        handlers, plan=hospitals.plan(names=names[:3], **about(FedPC(evidence="vote")))
    )
    with pytest.raises(DifferencingError):
        second.open()
    for name in names[:3]:
        folder = hospitals.folders[name]
        (asked,) = folder.approvals().runs()
        assert asked.consider
        folder.approvals().decide(
            asked.session, "denied", folder.identity(), Person("A. Weber"), note=WHY
        )
    with pytest.raises(PolicyRefusedError, match=DENIED) as caught:
        second.open()
    assert type(caught.value) is PolicyRefusedError
    hospitals.close()


def test_nobody_decides_in_time_and_the_run_is_taken_up_later(deployment, tmp_path):
    said = deployment.run(*RUN, "--wait-for-approval", 0, code=3)
    assert "the run waits until a person of this site approves it" in said
    assert deployment.waits == 0
    assert "coordinator run --resume" in said
    (run,) = deployment.coordinator.runs.iterdir()
    # another plan in between does not use the first one up, and a site may be mended
    deployment.run(*RUN, "--alpha", 0.02, "--wait-for-approval", 0, code=3)
    for name in SITES:
        for session in re.findall(r"run ([0-9a-f]{8})  WAITS", deployment.site(name, "status")):
            deployment.site(name, "approve", session)
    data = deployment.sites["south"].path / "data.csv"
    kept = data.read_bytes()
    data.unlink()
    got, said = call(["coordinator", "run", "--resume", str(run)])
    assert (got, "at site 'south'" in said) == (6, True), said
    data.write_bytes(kept)
    got, said = call(["coordinator", "run", "--resume", str(run)])
    assert got == 0, said
    assert deployment.edges("north", tmp_path / "own") == deployment.edges("west", tmp_path / "own")


def test_a_coordinator_killed_while_people_were_at_it_goes_on(deployment, tmp_path):
    def kill():
        raise SystemExit(137)

    # it has asked them three times by then
    deployment.people = [lambda: deployment.approve("north"), lambda: None, kill]
    with contextlib.suppress(SystemExit):
        call(["coordinator", *RUN, "--dir", str(deployment.coordinator.path)])
    assert not deployment.people
    deployment.approve(*[name for name in SITES if name != "north"])
    (run,) = deployment.coordinator.runs.iterdir()
    got, said = call(["coordinator", "run", "--resume", str(run)])
    assert got == 0, said
    assert deployment.edges("north", tmp_path / "own") == deployment.edges("west", tmp_path / "own")


def test_a_saved_plan_is_checked_by_a_site_and_then_carried_out_once(deployment, tmp_path):
    file = tmp_path / "plan.json"
    said = deployment.run("plan", *RUN[1:], "--alpha", 0.02, "--out", file)
    assert "Dr. Okafor asks for fedpc at north, south, west." in said
    assert f"Purpose: {PURPOSE}\n" in said
    assert "Parameter alpha is 0.02, usually 0.01. Significance level of every test.\n" in said
    assert "All other parameters are as usual: reveal auto, evidence auto, " in said
    assert deployment.calls == 0, "a plan sends nothing"
    assert not list(deployment.coordinator.runs.glob("*"))

    def rows(name):
        folder = str(deployment.sites[name].path)
        code, said = call(["site", "check", "--json", "--plan", str(file), "--dir", folder])
        assert code in (0, 4)  # what fails is in the rows
        found = json.loads(said[: said.rindex("]") + 1])
        return {row["check"]: row for row in found if row["check"].startswith("plan")}

    said = deployment.site("north", "check", "--plan", file)
    for sentence in (
        "Dr. Okafor asks for fedpc",
        "Disclosed: ",
        "The first sums: ",
        "alpha is 0.02",
    ):
        assert sentence in said
    schema = deployment.sites["north"].path / "schema.toml"
    kept = schema.read_bytes()
    schema.unlink()
    said = deployment.site("north", "check", "--plan", file, code=4)
    assert "Dr. Okafor asks for fedpc" in said
    assert "The first sums: " not in said
    schema.write_bytes(b"not a schema")
    said = deployment.site("north", "check", "--plan", file, code=4)
    assert "fail  schema" in said
    schema.write_bytes(kept)
    for name in SITES:
        found = rows(name)
        assert list(found) == ["plan: cohort", "plan: policy", "plan: data"]
        assert {row["state"] for row in found.values()} == {"ok"}
    policy = deployment.sites["south"].policy_path
    kept = policy.read_text("utf-8")
    policy.write_text(kept.replace("parameters = []", 'parameters = ["alpha 0.001..0.01"]'))
    found = rows("south")["plan: policy"]
    assert (found["state"], found["finding"]) == (
        "fail",
        "the site's policy asks for alpha 0.001..0.01, and the plan has 0.02",
    )
    assert "asks for alpha" in deployment.run("run", "--plan", file, code=3)
    policy.write_text(kept)

    deployment.people = [lambda: deployment.approve(*SITES)]
    plan = Plan.read(file)
    said = deployment.run("run", "--plan", file)
    assert f"cipherdag site approve {plan.session.hex()[:8]}" in said
    assert deployment.waits == 1
    for name in SITES:
        kept = deployment.sites[name].runs / plan.session.hex() / "plan.json"
        assert Plan.read(kept) == plan
    said = deployment.run("run", "--plan", file, code=3)
    assert "the session was opened before" in said
    # a plan that differs in anything is another one
    file.write_text(file.read_text("utf-8").replace('"alpha": 0.02', '"alpha": 0.05'), "utf-8")
    deployment.people = []
    said = deployment.run("run", "--plan", file, "--wait-for-approval", 0, code=3)
    assert "waits until a person" in said
    status = deployment.site("north", "status")
    assert f"What differs from before: run {plan.session.hex()[:8]} of " in status
    assert "alpha was 0.02, now 0.05." in status
    details = deployment.site("north", "status", "--details")
    assert f"Compared with run {plan.session.hex()[:8]} of " in details


def test_a_plan_that_is_none_or_names_other_sites_begins_nothing(deployment, tmp_path):
    file = tmp_path / "plan.json"
    for content in (b"", b"{}", b"\xff\xfe", b"[]"):
        file.write_bytes(content)
        assert "holds no plan" in deployment.run("run", "--plan", file, code=3)
        assert "holds no plan" in deployment.site("north", "check", "--plan", file, code=3)
    deployment.run("plan", *RUN[1:], "--out", file, "--force")
    approvals = deployment.coordinator.revoke("west")
    with pytest.raises(CohortError, match="asks for 3"):
        connected.ConnectedFederation(deployment.coordinator).carry_out_plan(Plan.read(file))
    assert set(approvals) == {"north", "south"}
    text = file.read_text("utf-8").replace('"name": "west"', '"name": "east"')
    file.write_text(text, "utf-8")
    other = CoordinatorFolder.create(
        tmp_path / "other", study="study", engine="files", files=str(tmp_path)
    )
    requests = [request_enrolment(own)[0] for own in deployment.sites.values()]
    other.approve(requests)
    with pytest.raises(CohortError, match="names 'east', which the study does not have"):
        connected.ConnectedFederation(other).carry_out_plan(Plan.read(file))
    assert deployment.calls == 0
    assert not list(deployment.coordinator.runs.glob("*"))


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_run_without_a_purpose_is_refused_before_anything_is_sent(deployment, command):
    said = deployment.run(command, "fedpc", code=2)
    assert "Missing option '--purpose'" in said
    said = deployment.run(command, "fedpc", "--purpose", "  ", code=2)
    assert "a plan over real sites says what its result is for" in said
    forged = "to learn\n  Disclosed: nothing at all."
    said = deployment.run(command, "fedpc", "--purpose", forged, code=2)
    assert "one line each" in said
    with pytest.raises(TypeError, match="purpose"):
        Federation.connect(deployment.coordinator.path)
    for purpose in ("", " \n"):
        with pytest.raises(ParameterError, match="says what its result is for"):
            Federation.connect(deployment.coordinator.path, purpose=purpose).run(
                FedPC(evidence="vote")
            )
    assert deployment.calls == 0
    assert not list(deployment.coordinator.runs.glob("*"))
    assert all("run " not in deployment.site(name, "status") for name in SITES)
