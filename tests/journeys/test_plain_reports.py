"""Reports are as plain as the pages: short sentences on average, none long, no private word."""

import importlib.util
from html.parser import HTMLParser

import golden_runs
import pytest
from documents import ROOT

from cipherdag.privacy.protections import PROTECTIONS
from cipherdag.questions.disclosure import sentences
from cipherdag.results.sentences import COUNTS_FIRST, DISCLOSED, SOME_ADD_NOTHING
from cipherdag.sites.record.ledger import RELEASE_KINDS

_SPEC = importlib.util.spec_from_file_location("plain_words", ROOT / "docs" / "plain_words.py")
plain_words = importlib.util.module_from_spec(_SPEC)
LINES = (
    "categories FedPC",
    "related FedPC reveal=sums",
    "categories FedFCI",
    "labels FedCMFS",
    "numbers RFcd",
    "interventions FedCD method=enco",
    "numbers FedBOSS",
    "categories FedBOSS reveal=sums",
    "mixed FedBOSS",
    "mixed Describe",
    "mixed Effect treatment=smoker outcome=weight adjust=age,stage",
    "followed Survival time=time event=event",
    "categories GraphCheck graph=DAG",
)
UNREAD = ("script", "style", "svg", "code", "textarea", "template")
IN_LINE = ("a", "b", "em", "i", "mark", "small", "span", "strong", "sub", "sup", "time", "button")
SAVED = "Find a variable"
"""What begins the bar above a graph, with the files that it can save."""


class Blocks(HTMLParser):
    """The texts of a page's blocks, and whether each is outside a table."""

    def __init__(self, page):
        super().__init__()
        self.found, self._text, self._unread, self._cells = [], "", 0, 0
        self.feed(page)
        self._end()

    def handle_starttag(self, tag, attrs):
        self._text += " code " * (tag == "code")
        self._unread += tag in UNREAD
        if tag not in (*UNREAD, *IN_LINE):
            self._end()
        self._cells += tag in ("td", "th")

    def handle_endtag(self, tag):
        self._unread -= tag in UNREAD
        if tag not in (*UNREAD, *IN_LINE):
            self._end()
        self._cells -= tag in ("td", "th")

    def handle_data(self, data):
        self._text += data * (not self._unread)

    def _end(self):
        text, self._text = " ".join(self._text.split()), ""
        if text and not text.startswith(SAVED):
            self.found.append((text, not self._cells))


@pytest.fixture(scope="module", autouse=True)
def loaded():
    import sys

    sys.modules["plain_words"] = plain_words
    _SPEC.loader.exec_module(plain_words)


@pytest.mark.parametrize("line", LINES)
def test_a_report_is_plain(line):
    assert line in golden_runs.RUNS
    _, text = golden_runs.outcome(line)["report"]
    page = text.partition("== report.html\n")[2].partition("\n== ")[0]
    blocks = Blocks(page).found
    assert len(blocks) > 20
    read = [s for text, whole in blocks for s in plain_words.sentences(text, whole=whole)]
    assert list(plain_words.faults(line, read)) == []


def test_what_a_ledger_says_of_each_release_is_plain():
    said = [text for kind in RELEASE_KINDS.values() for text in (f"{kind.phrase}.", kind.seen)]
    said += [text for kinds in DISCLOSED.values() for text in sentences(kinds)]
    said += [COUNTS_FIRST, SOME_ADD_NOTHING, *(each.left for each in PROTECTIONS.values())]
    read = [each for text in said for each in plain_words.sentences(text, whole=True)]
    assert len(read) > 50
    assert list(plain_words.faults("ledgers", read)) == []
