"""Every remedy of the package is followed by a test, or is something that only a person can do.

A test follows a remedy by `@pytest.mark.follows` or `advice.case`. All others begin with words
below, under what a person has that no test has. What can be typed is listed whole, one by one.
"""

import ast
import re
from functools import cache

from advice import every_remedy, of_remedy
from documents import ROOT
from remedies import unread

TYPED = re.compile(r"`|(?<!\w)--[a-z]|\w\(|\w = \S|\w=\S|\.toml|\.csv")
MARKING = {"follows": 0, "case": 1, "without": 2}
"""The functions that mark a test, and where the remedies begin among their arguments."""

PERSON = {
    "another person has to be asked, told or believed": (
        "Ask ", "Call the site", "Have the site make a new folder", "Try the query with",
        "If this is another hospital", "Is this the folder", "It is another file, or was cut",
        "It was changed on its way", "Activate the newest version", "Activate {}.approval",
        "Install the same version", "Check that both sides", "Bring the site back",
        "Prepare the site", "Check that the site is running", "Install a wheel",
        "Enrol it under another name", "Enrol the site anew", "Make a new site for a new one",
        "Is {} a token", "A person replaces the link", "Run the server as a user",
        "Do what stands behind DECIDE", "Do what stands under each finding", "Report this",
    ),
    "somebody may be lying: people stop and find out": (
        "Stop:", "Find out why: other roles", "Treat the ledger as altered", "Do not retry before",
        "Compare versions of", "Find out with all sites",
        "Compare the party's key", "Compare its version", "Find out who altered it",
        "A site answered beyond", "The coordinator, its network", "Only the sum over the sites",
        "Put its newest folder back", "Restore ", "Repeat the run; if it recurs",
    ),
    "only they know their data, what they ask, or what they meant": (
        "Adjust for fewer", "Take fewer rows of each patient", "If you know that it is a cause",
        "Only adjustment is estimated", "Look at each site's times",
        "Each site looks", "Check the edge list", "Check the site's data", "Compare graphs over",
        "Correct user and password", "Correct table, columns or query", "Correct the name after",
        "Correct the beginning", "Correct the drafts until", "Correct the sheet's name",
        "Give rows in which",
        "Choose 3: then sums hide", "Correct the file; docs",
        "Correct {}.", "A limit is no number",
        "This may be a thousand", "Leave the field empty", "Rename one of the two columns",
        "Give the ViewDefinition by which",
        "Declare a smaller bound", "Declare fewer colluding", "Choose {}.", "Name the folder of",
        "Name a folder under runs/", "Name a DuckDB file", "Name a site's folder, or a ledger",
        "Open it in Stata", "Open it in Excel", "Save the sheet as 'CSV UTF-8'",
        "Read the message", "Read the log", "Read {}.", "Look into it by hand", "Remove it.",
        "Run with as many distinct", "Its result lies there", "There is nothing to renew",
    ),
    "a machine, a disk, a clock or a network is theirs": (
        "Choose an algorithm that counts", "Copy the file again", "Give a UTF-8 CSV",
        "Install the package that",
        "Check host, port", "Make room on the disk",
        "Set this machine",
        "Run them on Linux", "Delete it; it is written anew", "Start a new run",
    ),
}  # fmt: skip

TYPED_BY_A_PERSON = {
    "Set this machine's clock; if it is right": "a person knows which clock is right",
    "Have the site run `cipherdag site request` again and send": "the request was forged",
    "Run `cipherdag site request` and send the new file.": "the certificate was forged",
    "Run `cipherdag site request`, send the file, and activate": "test_study does all three",
    "Make the site anew for the study's engine": "only the coordinator knows the engine",
    "Ask the coordinator which is right": "one of two addresses is wrong",
    "Ask the coordinator for the study's name": "one of two names is wrong",
    "Ask the site whether its policy.toml": "the site decides",
    "Say who decides, as in --name": "they know their name and role",
    "Run with the same sites as before": "people decide who may be seen",
    "Stop it, run `cipherdag site activate {}": "the site's process has to be stopped",
    "Read the end of `cipherdag site status`": "the process of the site ended",
    "Read {}, then run `cipherdag site start`": "the process of the site ended",
    "Start the sites; `cipherdag coordinator run`": "every site has its machine",
    "Have the sites run `cipherdag site check`": "every site has its machine",
    "Start it with `cipherdag coordinator start": "a server on the coordinator's machine",
    "Stop that process, or begin the study on another port": "it is another program's",
    "Give the right to bind the port": "an administrator does it",
    "If it comes back and was not restarted, go on by": "the network decides",
    "Name the folder that `cipherdag coordinator run` printed": "they have it on the screen",
    "Correct the file or its schema.toml.": "they know what the column means",
    "Correct [source] of site.toml": "they know how the file was exported",
    "Add the column, or remove it from schema.toml": "they know what was measured",
    "Choose a fitting test, or cut continuous columns": "errors of the class say which",
    "Name a file that `cipherdag audit bundle": "another person made the bundle",
    "Name a run that ended: `cipherdag": "they know which run they mean",
    "Leave --run out: there is one run here.": "they know what they meant",
    "Give every site the same schema.toml": "people agree on the schema",
}


@cache
def followed():
    """The parts of remedies that tests say they follow."""
    texts = [file.read_text("utf-8") for file in sorted((ROOT / "tests").rglob("*.py"))]
    marking = re.compile(rf"\b({'|'.join(MARKING)})\(")
    return tuple(part for text in texts if marking.search(text) for part in marked(text))


def marked(text):
    for node in ast.walk(ast.parse(text)):
        name = getattr(node, "func", None)
        begin = MARKING.get(getattr(name, "attr", getattr(name, "id", "")))
        if isinstance(node, ast.Call) and begin is not None:
            for part in node.args[begin:]:
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


BEGINNINGS = tuple(begin for group in PERSON.values() for begin in group)


def test_every_remedy_is_followed_or_only_a_person_s():
    open_ones = []
    for remedy in every_remedy():
        by_test = any(of_remedy(part, remedy.text) for part in followed())
        by_person = remedy.text.startswith(
            tuple(TYPED_BY_A_PERSON) if TYPED.search(remedy.text) else BEGINNINGS
        )
        if not by_test and not by_person:
            open_ones.append(f"{remedy.place}: {remedy.text}")
    assert not open_ones, "\n".join(["nobody follows:", *open_ones])


def test_every_mark_is_of_a_remedy():
    texts = [remedy.text for remedy in every_remedy()]
    for begin in (*BEGINNINGS, *TYPED_BY_A_PERSON):
        assert any(text.startswith(begin) for text in texts), begin
    for part in followed():
        assert any(of_remedy(part, text) for text in texts), part


def test_no_remedy_escapes_the_reader():
    """A remedy that is put together in a form that `remedies` cannot read would not be seen."""
    assert not unread()
