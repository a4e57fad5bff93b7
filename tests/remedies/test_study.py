"""What goes wrong between a coordinator and its sites is mended by the advised commands."""

import contextlib
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from advice import advice, case
from enrolment import Enrolment

from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.shared_folder import site_key
from cipherdag.federation.connected import ConnectedFederation
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.table.database import DatabaseSource

COMMAND = re.compile(r"`cipherdag ([^`]+)`")
CHMOD = re.compile(r"`chmod (\d+) ([^`]+)`")
NOT_READY = {"error": "SiteNotReadyError", "code": 4}


@pytest.fixture
def people(call, tmp_path):
    return Enrolment(call, tmp_path)


@pytest.fixture
def study(people):
    """Three hospitals that took part, with rows; the driver and their folders."""
    rng = np.random.default_rng(0)
    made = [people.site(name) for name in ("north", "south", "west")]
    for folder in made:
        people.approve(folder)
    for folder in made:
        frame = pd.DataFrame(rng.integers(0, 2, (80, 3)), columns=list("abc"))
        frame.to_csv(folder / "data.csv", index=False)
        people.fine("schema", "infer", folder / "data.csv", "--out", folder / "schema.toml")
        people.activate(folder)
    return people, made


def followed(people, remedy, folder, *more):
    """Type the commands that a remedy names in a folder."""
    with contextlib.chdir(folder):
        return [people.fine(*shlex.split(words), *more) for words in COMMAND.findall(remedy)]


@pytest.mark.follows("Name a site's folder with --dir, or make one with `cipherdag site new`")
def test_a_folder_of_no_site_is_named_or_made(people):
    here = people.folder / "here"
    here.mkdir()
    with contextlib.chdir(here):
        *_, do = people.wrong("site", "request", **NOT_READY)
        option = re.search(r"--\w+", do)[0]
        made = people.site("north")
        people.fine("site", "request", option, made)
        words = COMMAND.search(do)[1].split()
        people.fine(*words, "south", "--algorithm", "fedpc", "--files", people.share / "south")
        people.fine("site", "request", option, here / "south")


@pytest.mark.follows("Name one with --dir, or make one with `cipherdag coordinator new`")
def test_a_folder_of_no_coordinator_is_named_or_made(people):
    here = people.folder / "here"
    here.mkdir()
    with contextlib.chdir(here):
        *_, do = people.wrong("coordinator", "sites", **NOT_READY)
        option = re.search(r"--\w+", do)[0]
        people.fine("coordinator", "sites", option, people.coordinator)
        words = COMMAND.search(do)[1].split()
        (here / "share").mkdir()
        words += ["--study", "lungs", "--engine", "files", "--files", here / "share"]
        people.fine(*words, option, here / "new")
        people.fine("coordinator", "sites", option, here / "new")


@pytest.mark.follows("Send the file of `cipherdag site request` to the coordinator, then run")
def test_a_site_is_activated_as_advised(people):
    north = people.site("north")
    *_, do = people.wrong("site", "start", "--dir", north, **NOT_READY)
    request, activate = COMMAND.findall(do)
    followed(people, f"`cipherdag {request}`", north)
    people.approve(north)
    answer = people.coordinator / "approvals" / "north.approval"
    code = ("--code", people.codes["coordinator"])
    followed(people, f"`cipherdag {activate} {answer}`", north, *code)


@pytest.mark.follows("Have the site correct study in site.toml, run `cipherdag site request` again")
def test_a_request_for_another_study_is_made_again(people):
    west = people.site("west", study="lung")
    *_, do = people.approve(west, error="SignatureError")
    settings = west / re.search(r"in (\w+\.toml)", do)[1]
    settings.write_text(settings.read_text("utf-8").replace('"lung"', '"lungs"'), "utf-8")
    followed(people, do, west)
    people.approve(west)


@pytest.mark.follows("Have it make another folder with `cipherdag site new`")
def test_a_copied_folder_gives_way_to_a_new_one(people):
    north = people.site("north")
    people.approve(north)
    settings = north / "site.toml"
    settings.write_text(settings.read_text().replace('name = "north"', 'name = "south"'))
    (north / "north.request").unlink()
    people.fine("site", "request", "--dir", north)
    *_, do = people.approve(north, error="CohortError")
    words = COMMAND.search(do)[1].split()
    assert words == ["site", "new"]
    people.approve(people.site("south"))


@pytest.mark.follows("A site sends the .request that `cipherdag site request` writes")
def test_the_right_file_is_sent(people):
    north = people.site("north")
    people.approve(north)
    approval = people.coordinator / "approvals" / "north.approval"
    words = ("coordinator", "approve", approval, "--code", people.codes["north"])
    *_, do = people.wrong(*words, "--dir", people.coordinator, error="MalformedMessageError")
    request, approve = COMMAND.findall(do)
    ending = re.search(r"sends the (\.\w+) that", do)[1]
    followed(people, f"`cipherdag {request}`", north)
    (file,) = north.glob(f"*{ending}")
    code = ("--code", people.codes["north"])
    followed(people, f"`cipherdag {approve} {file}`", people.coordinator, *code)
    ending = re.search(r"is its (\.\w+)\.", do)[1]
    people.activate(north, approval=people.coordinator / "approvals" / f"north{ending}")


@pytest.mark.follows("It has {}.")
def test_a_site_that_is_listed_can_be_revoked(people):
    people.approve(people.site("south"))
    words = ("coordinator", "revoke", "--dir", people.coordinator)
    *_, do = people.wrong(*words, "nobody", error="ParameterError", code=2)
    people.fine(*words, re.search(r"It has (\w+)\.", do)[1])


@pytest.mark.follows("Have the site make its folder anew with `cipherdag site new --files`")
def test_a_site_of_another_engine_is_made_anew(people):
    other = people.folder / "other"
    words = ("site", "new", "north", "--study", "lungs", "--algorithm", "fedpc", "--host", "a.b")
    people.fine(*words, "--dir", other)
    said = people.fine("site", "request", "--dir", other)
    code = re.search(r"code\s+([a-z-]+)$", said, re.MULTILINE)[1]
    (request,) = other.glob("*.request")
    words = ("coordinator", "approve", request, "--code", code, "--dir", people.coordinator)
    *_, do = people.wrong(*words, error="ParameterError", code=2)
    words = COMMAND.search(do)[1].split()
    assert words[:2] == ["site", "new"]
    assert words[2] == "--files"
    people.approve(people.site("north", folder="anew"))


@pytest.mark.follows("Enrol more sites with `cipherdag coordinator approve`")
def test_more_sites_are_enrolled(people):
    made = [people.site(name) for name in ("north", "south", "west")]
    words = ("coordinator", "plan", "fedpc", "--purpose", "a test", "--dir", people.coordinator)
    code, _, do = people.call(*words)
    assert code == 3
    for folder in made:
        (request,) = folder.glob("*.request")
        asked = ("--code", people.codes[folder.name])
        followed(people, do.replace("approve`", f"approve {request}`"), people.coordinator, *asked)
    people.fine(*words)


@pytest.mark.follows(
    "`cipherdag coordinator plan --out` writes one.", "Make a new plan with `cipherdag"
)
def test_a_plan_is_written_anew(study):
    people, _ = study
    (people.folder / "bad.json").write_text("{}", "utf-8")
    run = ("coordinator", "run", "--dir", people.coordinator, "--plan")
    code, _, do = people.call(*run, people.folder / "bad.json")
    assert code == 3
    plan = people.folder / "plan.json"
    words = shlex.split(COMMAND.search(do)[1])
    asked = ("fedpc", "--purpose", "a test")
    people.fine(*words[:2], *asked, *words[2:], plan, "--dir", people.coordinator)
    people.fine("coordinator", "revoke", "west", "--dir", people.coordinator)
    people.approve(people.site("east"))
    code, _, said = people.call(*run, plan)
    assert code == 3
    words = COMMAND.search(said)[1].split()
    people.fine(*words, *asked, "--dir", people.coordinator)


@pytest.mark.follows(
    "See `cipherdag site status`, which lists them", "Read it with `cipherdag site status`"
)
def test_a_plan_that_waits_is_found_and_approved(study):
    people, (north, *_) = study
    plan = ConnectedFederation(CoordinatorFolder(people.coordinator), purpose="a test").plan(
        "fedpc"
    )
    remedy = advice(SiteFolder(north).approvals().check, plan)
    unknown = ("site", "approve", "00000000", "--dir", north)
    *_, do = people.wrong(*unknown, error="ParameterError", code=2)
    (listing,) = followed(people, do, north)
    assert plan.session.hex()[:8] in listing
    *_, do = people.wrong("site", "result", "00000000", "--dir", north, error="OutputError", code=1)
    followed(people, do, north)
    status, approve, _ = COMMAND.findall(remedy)
    followed(people, f"`cipherdag {status}` `cipherdag {approve}`", north)
    SiteFolder(north).approvals().check(plan)


@pytest.mark.parametrize(
    ("name", "mode", "read"),
    [
        case(
            ("policy.toml", 0o666, SiteFolder.policy), "Read it through, then run `chmod 600 {}`."
        ),
        case(
            ("identity.pem", 0o644, lambda site: SigningIdentity.load(site.identity_path)),
            "if others could read it, make a new key.",
        ),
        case(
            ("folder.key", 0o644, SiteFolder.check_keys),
            "if others could read it, make a new site.",
        ),
    ],
)
def test_a_file_that_others_can_open_is_closed_as_advised(people, name, mode, read):
    site = SiteFolder(people.site("north"))
    private = next(site.path.rglob(name))
    private.chmod(mode)
    digits, path = CHMOD.search(advice(read, site)).groups()
    Path(path).chmod(int(digits, 8))
    read(site)


@pytest.mark.follows("have the password changed", "Write it with the keys user and password, then")
def test_a_password_is_written_and_closed_as_advised(tmp_path):
    source, secret = tmp_path / "source.toml", tmp_path / "secret.toml"
    source.write_text(
        'address = "postgresql://localhost/a"\ntable = "a"\ncredentials = "secret.toml"\n', "utf-8"
    )

    def read():
        return DatabaseSource.load(source).secret()

    first, second, digits = re.search(
        r"keys (\w+) and (\w+), then `chmod (\d+)`", advice(read)
    ).groups()
    secret.write_text(f'{first} = "me"\n{second} = "word"\n', "utf-8")
    secret.chmod(0o644)
    digits, path = CHMOD.search(advice(read)).groups()
    Path(path).chmod(int(digits, 8))
    assert read().user == "me"


@pytest.mark.follows("A person at a site writes the knowledge by names: `cipherdag site knowledge")
def test_knowledge_by_names_is_written_at_a_site(study):
    people, (north, *_) = study
    plan = ("coordinator", "plan", "fedpc", "--purpose", "a test", "--dir", people.coordinator)
    known = people.folder / "known.toml"
    known.write_text('forbidden = [["a", "b"]]\n', "utf-8")
    code, _, do = people.call(*plan, "--knowledge", known)
    assert code == 2
    words = COMMAND.search(do)[1].replace(" A B ", " a b ")
    followed(people, f"`cipherdag {words}`", north)
    file = shlex.split(words)[-1]
    option = re.search(r"as (--\w+)\. ", do + " ")[1]
    people.fine(*plan, option, north / file)


POLICY = re.compile(r'add "([\w-]+)" to (\w+) in its (policy\.toml)')


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        case(("algorithms", 'algorithms = ["rfcd"]'), 'If the site agrees, add "{}" to algorithms'),
        case(
            ("protections", 'protections = ["bfv"]'), 'If the site agrees, add "{}" to protections'
        ),
    ],
)
def test_a_site_that_agrees_changes_its_policy(study, key, rule):
    people, (north, *_) = study
    plan = ConnectedFederation(CoordinatorFolder(people.coordinator), purpose="a test").plan(
        "fedpc"
    )
    site = SiteFolder(north)
    text = site.policy_path.read_text("utf-8")
    strict = re.sub(rf"^{key} = .*$", rule, text, flags=re.MULTILINE)
    site.policy_path.write_text(strict, "utf-8")
    value, named, _ = POLICY.search(advice(site.policy().check_run, plan, rows=80)).groups()
    assert named == key
    site.policy_path.write_text(strict.replace(rule, f'{rule[:-1]}, "{value}"]'), "utf-8")
    site.policy().check_run(plan, rows=80)


@pytest.mark.follows("if others could read it, enrol the site anew.")
def test_the_key_of_a_shared_folder_is_closed_as_advised(study):
    _, (north, *_) = study
    site = SiteFolder(north)
    site.folder_key.chmod(0o644)
    digits, path = CHMOD.search(advice(site_key, site, site.study())).groups()
    Path(path).chmod(int(digits, 8))
    assert site_key(site, site.study())


@pytest.mark.follows("Correct policy.toml; `cipherdag site check` says when it can be read.")
def test_a_policy_is_corrected_and_checked(people):
    north = people.site("north")
    site = SiteFolder(north)
    text = site.policy_path.read_text("utf-8")
    site.policy_path.write_text("min_sites = -1\n", "utf-8")
    words = COMMAND.search(advice(site.policy))[1].split()
    _, before, _ = people.call(*words, "--dir", north)
    site.policy_path.write_text(text, "utf-8")
    _, after, _ = people.call(*words, "--dir", north)
    assert [re.search(r"^(\w+) +policy", said, re.MULTILINE)[1] for said in (before, after)] == [
        "fail",
        "ok",
    ]
