"""What people read when an enrolment goes wrong: cause, effect and remedy, and no word of a run."""

import re
import sys

import pytest
from commands import call as cipherdag
from enrolment import Enrolment

from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.privacy.keys.identity import WORDS, SigningIdentity
from cipherdag.sites.study.site_folder import SiteFolder
from cipherdag.sites.study.study import StudySite


@pytest.fixture
def call(capsys, monkeypatch):
    return lambda *words, **how: cipherdag(capsys, monkeypatch, *words, **how)


@pytest.fixture
def people(call, tmp_path):
    return Enrolment(call, tmp_path)


def other_word(code, place):
    words = code.split("-")
    words[place] = WORDS[WORDS.index(words[place]) - 1]
    return "-".join(words)


def test_a_wrong_code_of_a_site(people):
    north, south = people.site("north"), people.site("south")
    cause, effect, do = people.approve(north, code=people.codes["south"], error="SignatureError")
    assert "no code given is that of the request's key: it is another code" in cause
    assert effect == "no site was enrolled"
    assert "do not approve it" in do
    heard = other_word(people.codes["north"], 2)
    cause, *_ = people.approve(north, code=heard, error="SignatureError")
    assert cause.endswith("word 3 of 9 is another")
    typed = people.codes["south"].replace("-", " ", 3).upper()
    assert "send to 'south'" in people.approve(south, code=typed)


def test_a_word_that_is_in_no_code(people):
    north = people.site("north")
    heard = "trumpit-" + people.codes["north"].split("-", 1)[1]
    words = ("coordinator", "approve", north / "north.request", "--code", heard)
    words += ("--dir", people.coordinator)
    cause, effect, do = people.wrong(*words, error="ParameterError", code=2)
    assert cause == "word 1 of the code, 'trumpit', is none of its list"
    assert "trumpet" in do
    assert effect == "nothing was written"


def test_a_wrong_code_of_the_coordinator(people):
    north = people.site("north")
    people.approve(north)
    cause, effect, do = people.activate(north, code=people.codes["north"], error="SignatureError")
    assert cause.startswith(
        "the approval is not from the coordinator with this code: it is another"
    )
    assert effect.startswith("nothing was activated")
    assert "do not activate it" in do
    assert not (north / "study.json").exists()


def test_a_code_is_asked_for_where_none_is_given(people, monkeypatch):
    import io

    north = people.site("north")
    monkeypatch.setattr(sys, "stdin", io.StringIO(people.codes["north"] + "\n"))
    words = ("coordinator", "approve", north / "north.request", "--dir", people.coordinator)
    out = people.fine(*words)
    asked = out.index("The code that 'north' reads aloud to you")
    assert people.codes["north"] not in out[:asked], "what is on the screen is copied, not heard"
    monkeypatch.setattr(sys, "stdin", io.StringIO(people.codes["coordinator"] + "\n"))
    approval = people.coordinator / "approvals" / "north.approval"
    assert "Active in study" in people.fine("site", "activate", approval, "--dir", north)


def test_another_study(people):
    west = people.site("west", study="lung")
    cause, effect, do = people.approve(west, error="SignatureError")
    assert cause == "the request is for the study 'lung', this one is 'lungs'"
    assert effect == "no site was enrolled"
    settings = west / "site.toml"
    settings.write_text(settings.read_text().replace('study = "lung"', 'study = "lungs"'))
    people.fine("site", "request", "--dir", west)
    people.approve(west)
    settings.write_text(settings.read_text().replace('study = "lungs"', 'study = "lung"'))
    cause, _, do = people.activate(west, error="SignatureError")
    assert cause == "the approval is for the study 'lungs', not for 'lung'"
    assert "correct study in site.toml" in do


def test_the_approval_of_another_site_or_of_another_folder(people):
    north, south = people.site("north"), people.site("south")
    people.approve(north)
    people.approve(south)
    approval = people.coordinator / "approvals" / "south.approval"
    cause, _, do = people.activate(north, approval=approval, error="SignatureError")
    assert cause == "the approval is for 'south', not for 'north'"
    assert do == "Activate north.approval; this one belongs to the other site."
    anew = people.site("north", folder="north-anew")
    approval = people.coordinator / "approvals" / "north.approval"
    cause, _, do = people.activate(anew, approval=approval, error="SignatureError")
    assert "another identity key" in cause
    assert "under another name" in do


def test_a_name_that_is_taken_and_a_folder_that_was_copied(people):
    north = people.site("north")
    people.approve(north)
    before = (people.coordinator / "study.json").read_bytes()
    for name in ("north", "North"):
        other = people.site(name, folder=f"{name}-2")
        cause, _, do = people.approve(other, error="CohortError")
        assert cause == "the name is taken: the study knows 'north' with another key"
        assert "choose another name" in do
    assert (people.coordinator / "study.json").read_bytes() == before
    settings = north / "site.toml"
    settings.write_text(settings.read_text().replace('name = "north"', 'name = "south"'))
    (north / "north.request").unlink()
    people.fine("site", "request", "--dir", north)
    cause, _, do = people.approve(north, error="CohortError")
    assert cause == "the study knows its key as 'north'"
    assert "must not be copied" in do


def test_a_request_and_an_approval_are_used_twice(people):
    north = people.site("north")
    people.approve(north)
    assert "The study has 1 sites" in people.approve(north)
    assert "sites new: north" in people.activate(north)
    assert "sites new" not in people.activate(north)


def test_an_older_approval(people, tmp_path):
    north = people.site("north")
    people.approve(north)
    old = tmp_path / "old.approval"
    old.write_bytes((people.coordinator / "approvals" / "north.approval").read_bytes())
    people.approve(people.site("south"))
    people.activate(north)
    cause, _, do = people.activate(north, approval=old, error="ReplayError")
    assert "version 2 of the study, version 3 is active" in cause
    assert do == "Ask the coordinator for the newest approval."


def test_files_that_are_other_files(people, tmp_path):
    north = people.site("north")
    people.approve(north)
    request = (north / "north.request").read_bytes()
    (tmp_path / "cut").write_bytes(request[:300])
    files = {
        tmp_path / "cut": "is not a site's request",
        north / "site.toml": "is not a site's request",
        people.coordinator / "approvals" / "north.approval": (
            "is a coordinator's approval, not a site's request"
        ),
        people.coordinator / "study.json": "is a signed study, not a site's request",
    }
    for file, said in files.items():
        words = ("coordinator", "approve", file, "--code", people.codes["north"])
        cause, effect, do = people.wrong(
            *words, "--dir", people.coordinator, error="MalformedMessageError"
        )
        assert cause == f"{file} {said}"
        assert effect == "no site was enrolled"
        assert ("have it sent again" in do) != (" `cipherdag site request` " in do)
    cause, _, do = people.activate(
        north, approval=north / "north.request", error="MalformedMessageError"
    )
    assert cause.endswith("is a site's request, not a coordinator's approval")
    assert "what comes back from `cipherdag coordinator approve`" in do


def test_files_that_were_changed_on_their_way(people, tmp_path):
    north = people.site("north")
    people.approve(north)
    changed = tmp_path / "north.approval"
    approval = (people.coordinator / "approvals" / "north.approval").read_text("utf-8")
    changed.write_text(approval.replace('"min_sites": 3', '"min_sites": 2'))
    cause, _, do = people.activate(north, approval=changed, error="SignatureError")
    assert cause == "the approval is not as the coordinator signed it"
    assert "send it again" in do
    request = north / "north.request"
    request.write_text(request.read_text().replace('"organisation": "site"', '"organisation": "x"'))
    cause, _, do = people.approve(north, error="SignatureError")
    assert cause == "the request is not signed by the identity key it names"
    assert "send it again" in do


def test_another_study_than_the_other_sites_have(people):
    north = people.site("north")
    people.approve(north)
    other = "-".join(WORDS[:18])
    cause, _, do = people.activate(north, "--study", other, error="SignatureError")
    assert cause.startswith("the study is not the one that the other site has: it is another code")
    assert "two sites different studies" in do
    said = people.activate(north)
    code = re.search(r"the study's code\s+([a-z-]+)$", said, re.MULTILINE)[1]
    assert code.count("-") == 17
    people.activate(north, "--study", code.replace("-", " "))
    assert code in people.fine("site", "status", "--dir", north)


@pytest.mark.parametrize("how", ["at once", "taken away before", "taken back", "renamed"])
def test_a_name_is_never_given_to_another_key(people, how):
    """Sums over the same names would differ by what the first holder of one of them answered."""
    made = {name: people.site(name) for name in ("north", "south", "west")}
    for own in made.values():
        people.approve(own)
    people.activate(made["north"])
    folder = CoordinatorFolder(people.coordinator)
    study = folder.study()
    others = tuple(site for site in study.sites if site.name != "west")
    forged = (*others, StudySite("west", SigningIdentity.generate().public))
    revoked = ()
    if how == "taken back":
        people.fine("coordinator", "revoke", "west", "--dir", people.coordinator)
        people.activate(made["north"])
    if how == "taken away before":
        forged = others
    if how == "renamed":
        key = study.pinned["west"]
        forged, revoked = (*others, StudySite("west-2", key)), ("west",)
        (people.coordinator / "sites" / "west-2.crt").write_bytes(b"")
    folder._issue(sites=forged, revoked=revoked, version=study.version + 2)
    folder._approvals()
    cause, _, do = people.activate(made["north"], error="SignatureError")
    if how == "renamed":
        assert "the name 'west-2' to another key, or a known key" in cause
    else:
        assert "the name 'west' to another key" in cause
    assert "by subtraction" in do
    assert SiteFolder(made["north"]).study().version < study.version + 2


def test_a_revoked_site_and_one_that_is_none(people):
    south = people.site("south")
    people.approve(south)
    cause, effect, do = people.wrong(
        "coordinator", "revoke", "nobody", "--dir", people.coordinator,
        error="ParameterError", code=2,
    )  # fmt: skip
    assert (cause, do) == ("the study has no site 'nobody'", "It has south.")
    people.fine("coordinator", "revoke", "south", "--dir", people.coordinator)
    cause, effect, do = people.approve(south, error="PolicyRefusedError")
    assert cause == "the site was revoked"
    assert do == "Enrol it under another name, from a new folder."
    assert effect == "no site was enrolled"


def test_folders_that_are_the_other_side_s(people):
    north = people.site("north")
    words = ("coordinator", "approve", north / "north.request", "--code", people.codes["north"])
    cause, *_ = people.wrong(*words, "--dir", north, error="SiteNotReadyError", code=4)
    assert cause == f"{north} is no coordinator's folder"
    words = ("site", "request", "--dir", people.coordinator)
    cause, effect, _ = people.wrong(*words, error="SiteNotReadyError", code=4)
    assert "site.toml cannot be read" in cause
    assert effect == "no request was written"


def test_a_site_is_started_or_asked_before_it_is_activated(people):
    north = people.site("north")
    got, out, err = people.call("site", "start", "--dir", north)
    assert (got, out) == (4, ""), "nothing says that it started"
    assert "  effect  the site is not running; nothing left it\n" in err
    assert "cipherdag site activate" in err
    people.wrong("site", "approve", "ffffffff", "--dir", north, error="ParameterError", code=2)
    assert "not activated" in people.fine("site", "status", "--dir", north)
    _, effect, _ = people.wrong("site", "check", "--dir", north, error="SiteNotReadyError", code=4)
    assert effect == "nothing was changed, and nothing left this site"
    words = ("coordinator", "run", "fedpc", "--purpose", "x", "--dir", people.coordinator)
    _, _, err = people.call(*words)
    assert "  effect  the run stopped;" in err, "a run still says so"


def test_a_code_of_no_request_is_asked_about(people):
    north, other = people.site("north"), people.site("other")
    request = next(other.glob("*.request"))
    codes = [word for made in (north, other) for word in ("--code", people.codes[made.name])]
    words = ("coordinator", "approve", request, *codes, "--dir", people.coordinator)
    got, _, err = people.call(*words)
    assert got == 2
    assert "1 of the codes given are of no request here" in err
    assert "north" not in people.fine("coordinator", "sites", "--dir", people.coordinator)
    assert not list((people.coordinator / "approvals").glob("*.approval"))
