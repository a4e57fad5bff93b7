"""What a notebook shows as text: graphs, results, plans in sentences, a line of progress."""

import contextlib
import io

import msgspec
import numpy as np
import pandas as pd
import pytest
from pages import Page
from test_report import HOSTILE

from cipherdag import Effect, Federation, FedFCI, FedPC, ProgressLine
from cipherdag.federation.connected import ConnectedFederation
from cipherdag.graphs.networks import asia
from cipherdag.protocol.plan import Member, make_plan
from cipherdag.protocol.progress import DropOut, RoundReport

NAMES = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style>{{ 7 * 7 }}")
EFFECT = Effect(treatment=NAMES[1], outcome=NAMES[2], adjust=NAMES[0])
ALLOWED = {
    *("div", "style", "svg", "g", "title", "path", "polygon", "circle", "rect", "text", "tspan"),
    *("details", "summary", "pre", "p", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"),
}


@pytest.fixture(scope="module")
def hospitals():
    rng = np.random.default_rng(1)
    first = rng.normal(size=1500)
    second = rng.random(1500) < 1.0 / (1.0 + np.exp(-2.0 * first))
    third = first + 2.0 * second + rng.normal(size=1500)
    columns = (first, np.where(second, "<b>yes</b>", "no"), third)
    return Federation.split(pd.DataFrame(dict(zip(NAMES, columns, strict=True))), 3, seed=1)


@pytest.mark.parametrize(
    "algorithm",
    [FedPC(), FedFCI(), FedPC(bootstrap=2), EFFECT],
    ids=["graph", "pag", "replicates", "effect"],
)
def test_hostile_names_of_columns_are_text(hospitals, algorithm):
    page = Page(hospitals.run(algorithm)._repr_html_())
    assert {tag for tag, _ in page.elements} <= ALLOWED
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_a_plan_is_a_list_of_its_sentences(tmp_path):
    plan = make_plan(
        [Member(name=f"site-{n}", identity=bytes([n]) * 32) for n in range(3)],
        algorithm="fedpc",
        protection="masking",
        parameters=msgspec.to_builtins(FedPC()),
        purpose=HOSTILE[0],
        requester=HOSTILE[1],
    )
    shown = ConnectedFederation(tmp_path).explain(plan)
    page = Page(shown._repr_html_())
    assert {tag for tag, _ in page.elements} == {"ul", "li"}
    assert str(shown).splitlines()[0].endswith("asks for fedpc at site-0, site-1, site-2.")
    assert f"Purpose: {HOSTILE[0]}." in shown.lines
    assert len(page.elements) == 1 + len(shown.lines)


def lines_of(written):
    """What is left on the screen: a carriage return goes back to the beginning of its line."""
    return [line.split("\r")[-1].rstrip() for line in written.split("\n")]


def test_the_line_of_progress_rewrites_itself():
    said = io.StringIO()
    patients = asia().sample(1500, np.random.default_rng(1))
    with contextlib.redirect_stdout(said):
        result = Federation.split(patients, 3).run(FedPC(), progress=ProgressLine())
    (line,) = lines_of(said.getvalue())
    last = result.rounds[-1]
    assert line.startswith(f"round {last.number}: {last.label}, 3 sites answered. ")
    assert line.endswith(" per site so far")
    texts = said.getvalue().split("\r")[1:]
    assert len(texts) == 2 * len(result.rounds)
    assert texts[0].startswith(f"round 1: {result.rounds[0].label} ... 0.0 s, 0 B")


def test_a_shorter_line_replaces_a_longer_one_and_leavers_keep_theirs():
    def report(number, label, left=()):
        return RoundReport(number, "bits", label, 8, 0.5, {"a": 2000, "b": 900}, 2, 3, "", left)

    said = io.StringIO()
    line = ProgressLine(said)
    line(report(1, "a label that is long"))
    line(report(2, "short"))
    long, short = said.getvalue().split("\r")[1:]
    assert len(short) == len(long)
    assert short.rstrip() == "round 2: short, 2 sites answered. 1.0 s, 4.0 kB per site so far"
    line(report(3, "short", (DropOut("west", 3, "answer", "timeout", False, 2, 2),)))
    gone, now = lines_of(said.getvalue())
    assert gone.startswith("Site 'west' left in round 3 (answer: timeout)")
    assert now.startswith("round 3: short, 2 sites answered.")
