"""FedFCI over rows drawn anew: shares of marks against drawing by hand, and their consensus."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from driving import drive
from hypothesis import given
from hypothesis import strategies as st
from pages import Page
from simulating import view_of

from cipherdag import PAG, Federation, FedFCI, LearntPAG, Run
from cipherdag.algorithms.algorithm import Facts
from cipherdag.findings.confidence import Confidences, EdgeConfidence, EdgeCounts
from cipherdag.graphs.edges import confirmed_mark, reversed_mark

SIGNS = ("<-o", "o->", "<->", "o-o", "-->", "<--", "")
ENDS = [f"{end}_{own}" for end in ("from", "to") for own in ("arrow", "tail", "circle")]


def patients(rows=900):
    """Two diseases with a cause that no column has, and of each a cause that a column has."""
    rng = np.random.default_rng(0)
    smoke, pollen, inherited = rng.normal(size=(3, rows))
    return pd.DataFrame(
        {
            "Smoke": smoke,
            "Pollen": pollen,
            "Asthma": 0.4 * smoke + inherited + rng.normal(size=rows),
            "Allergy": 0.2 * pollen + inherited + rng.normal(size=rows),
        }
    )


@pytest.mark.parametrize("search", ["fci", "rfci"])
def test_replicates_are_runs_over_drawn_rows(search):
    tables = [site.table for site in Federation.split(patients(), 3).sites]
    sites = [*map(view_of, tables)]
    facts, chosen = Facts(4, 3, seed=7), {"search": search, "alpha": 0.05}
    outcome, _ = drive(FedFCI(**chosen, bootstrap=3).ask(facts), sites)
    plain, _ = drive(FedFCI(**chosen).ask(facts), sites)
    assert (outcome.marks == plain.marks).all()
    assert plain.bootstrap is None
    graphs = []
    for replicate in (1, 2, 3):
        drawn = [
            own.take(site.resampled_rows(replicate, 7))
            for own, site in zip(tables, sites, strict=True)
        ]
        graphs.append(drive(FedFCI(**chosen).ask(facts), [*map(view_of, drawn)])[0].marks)
    assert len({own.tobytes() for own in graphs}) > 1
    assert outcome.bootstrap == EdgeCounts.of(graphs, "o-o")
    pag = PAG("abcd", outcome.marks)
    found = Confidences(outcome.bootstrap.details("abcd"))
    for a, b, mark, counts in found.pairs(pag):
        apart, shares = 1.0 - counts.any_edge, counts.end_shares
        i, j = "abcd".index(a), "abcd".index(b)
        assert mark in {"", *(edge.mark for edge in pag.edges)}
        ends = [[own[j, i] for own in graphs], [own[i, j] for own in graphs]]
        expected = [end.count(code) / 3 for end in ends for code in (2, 3, 1)]
        assert shares == pytest.approx(expected)
        assert apart == pytest.approx(ends[0].count(0) / 3)


@given(st.lists(st.sampled_from(SIGNS), min_size=1, max_size=12), st.floats(0.05, 1.0))
def test_the_consensus_has_at_each_end_what_enough_replicates_have(marks, threshold):
    counts = Counter(own for own in marks if own)
    own = EdgeConfidence(len(marks), counts, "o-o")
    told, least = own.consensus(threshold), threshold * len(marks)
    joined = len(marks) - marks.count("")
    assert bool(told) == (joined >= least)
    assert own.turned.consensus(threshold) == (reversed_mark(told) if told else "")
    if told:
        for end, arrow in ((0, "<"), (2, ">")):
            enough = [
                sign
                for sign in (arrow, "-")
                if sum(bool(own) and own[end] == sign for own in marks) >= least
            ]
            assert told[end] == (enough[0] if len(enough) == 1 else "o")


def test_what_too_few_replicates_have_is_drawn_as_a_circle():
    assert confirmed_mark("<->", "<-o", "o-o") == "<-o"
    assert confirmed_mark("-->", "<->", "o-o") == "o->"
    assert confirmed_mark("-->", "", "o-o") == "o-o"
    assert confirmed_mark("o->", "-->", "o-o") == "o->"
    assert confirmed_mark("-->", "---", "---") == "---"
    assert confirmed_mark("---", "-->", "---") == "---"


def test_the_result_its_folder_and_its_page_tell_the_shares(tmp_path):
    result = Federation.split(patients(3000), 3, device="cpu").run(FedFCI(bootstrap=10), seed=1)
    frame = result.table("confidence").set_index(["from", "to"])
    assert list(frame.columns) == ["mark", "no_edge", *ENDS]
    for end in ("from", "to"):
        shares = frame[[f"{end}_{own}" for own in ("arrow", "tail", "circle")]].sum(axis=1)
        assert np.allclose(shares + frame["no_edge"], 1.0)
    # the pair with the unmeasured cause: strong, and arrows at both ends in nearly all
    pair = frame.loc["Allergy", "Asthma"]
    assert pair["no_edge"] == 0.0
    assert result.finding.consensus().skeleton().any()
    assert (
        result.finding.consensus(1.0).skeleton().sum()
        <= result.finding.consensus(0.05).skeleton().sum()
    )
    table = result.table("edges")
    assert list(table.columns[:12]) == [
        *("from", "to", "mark", "confidence", "any_edge", "consensus"),
        *ENDS,
    ]
    folder = result.save(tmp_path / "out")
    again = Run.load(folder, LearntPAG)
    assert again.table("confidence").equals(result.table("confidence"))
    assert again.finding.consensus() == result.finding.consensus()
    assert json.loads((folder / "result.json").read_text("utf-8"))["details"]["bootstrap"]
    assert (folder / "edges.csv").read_text("utf-8").startswith(",".join(table.columns))
    page = Page((folder / "report.html").read_text("utf-8"))
    page.check_offline()
    assert "or by fewer than half of the replicates" in page.texts["body"]
    assert "Consensus, the marks that at least 50% of 10 replicates have" in "\n".join(
        result.lines()
    )
    assert "rows that each site drew anew" in page.texts["body"]
    assert page.column("edge-table", "Strength")
