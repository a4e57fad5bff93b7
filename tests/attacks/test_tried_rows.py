"""Whoever can list what a site's rows may be tries them all: what a site draws has a key, too.

What a site blurs and draws follows from its rows, or asking again would average it out. From its
rows alone it would be no secret to whoever knows all rows but a few values: each hypothesis gives
an answer to the bit, and one of them is the site's.
"""

import copy
import pickle
from dataclasses import replace
from functools import cache
from itertools import product

import msgspec
import numpy as np
import pandas as pd
import pytest
from driving import drive

from cipherdag import Effect, FedBOSS, Federation, FedPC, Survival
from cipherdag.algorithms.algorithm import Facts
from cipherdag.deployment import rehearsal
from cipherdag.graphs.networks import asia
from cipherdag.privacy.keys.identity import DrawKey, SigningIdentity
from cipherdag.questions.local_beliefs import LocalBeliefs, Training
from cipherdag.questions.question import Bundle, Resampled
from cipherdag.questions.regrets import FamilyRegrets, ScoreSpec, pack_families
from cipherdag.questions.threshold import Suppressed
from cipherdag.results import site_result
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.noise import CellKeys, unkeyed
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

LEAST = Policy().min_cell_size
UNKNOWN = 6  # values of one column: everything else of the site is known


def regrets(n_variables, *families):
    """How much worse families explain a site's rows than its best, which a site moves."""
    packed = pack_families(families, n_variables)
    return FamilyRegrets(n_variables, ScoreSpec(), packed, grid_bits=10)


FAMILIES = regrets(3, *((v, u) for v in range(3) for u in range(8) if not u >> v & 1))


def site_rows(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random(200) < 0.4
    y = rng.random(200) < np.where(x, 0.6, 0.3)
    return np.column_stack([x, y, rng.random(200) < 0.15]).astype(np.int32)


@cache
def site_table():
    columns = pd.DataFrame(site_rows(), columns=list("abc")).astype(str)
    return Federation.simulate(dict.fromkeys("xyz", columns), device="cpu").sites[0].table


def told(rows, keyed):
    """What a site answers as its policy has it by default."""
    view = SiteView.of_table(replace(site_table(), codes=rows), min_cell_size=LEAST, keyed=keyed)
    return view.answer(FAMILIES)


def fitting(seen, keyed):
    """Which of all hypotheses about the unknown values give the answer that was seen."""
    rows, found = site_rows(), []
    for bits in product((0, 1), repeat=UNKNOWN):
        rows[10 : 10 + UNKNOWN, 2] = bits
        if np.array_equal(told(rows, keyed), seen):
            found.append(bits)
    return found


def test_whoever_tries_all_rows_finds_a_simulation_s_and_no_site_s():
    truth = [tuple(site_rows()[10 : 10 + UNKNOWN, 2].tolist())]
    own = SigningIdentity.generate().draw_key()
    assert fitting(told(site_rows(), unkeyed), unkeyed) == truth
    assert fitting(told(site_rows(), own), unkeyed) == []
    assert fitting(told(site_rows(), own), SigningIdentity.generate().draw_key()) == []
    # it is the key that they lack, and nothing else
    assert fitting(told(site_rows(), own), own) == truth


def asked():
    """What runs ask that draw and blur all that a site does, each of the site that is asked."""
    rng = np.random.default_rng(0)
    rows = asia().sample(900, rng)
    numbers = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    grades = numbers.assign(grade=rng.choice(list("xy"), 300))
    followed = pd.DataFrame({"t": rng.exponential(3.0, 300), "u": rng.integers(0, 2, 300)})
    followed["v"] = rng.integers(0, 2, 300)
    cause = {"treatment": "grade", "outcome": "a", "adjust": "b"}
    runs = [
        (FedPC(max_cond_size=0, reveal="sums"), rows),
        (FedPC(evidence="vote", max_cond_size=0, bootstrap=1), rows),
        (FedPC(evidence="fisher", max_cond_size=1), numbers.round() + 0.5),
        (FedBOSS(), numbers),
        (Effect(**cause, estimator="regression", refute=True), grades),
        (Effect(**cause, estimator="linear", refute=True), grades),
        (Survival(time="t", event="u", by="v", site_effect=True), followed),
    ]
    for algorithm, data in runs:
        tables = [own.table for own in Federation.split(data, 3, seed=0, device="cpu").sites]
        sites = [SiteView.of_table(own, min_cell_size=5, device="cpu") for own in tables]
        facts = Facts(len(tables[0].names), 3, names=tables[0].names, min_contributors=3)
        yield tables[0], drive(algorithm.ask(facts), sites)[1]


def kind(part):
    """Its name, what it does to rows, and whether it is about drawn ones."""
    drawn = isinstance(part, Resampled)
    while isinstance(part, Suppressed | Resampled):
        part = part.question
    return f"{type(part).__name__} {getattr(part, 'refutation', '')}".strip(), drawn


def test_whatever_a_site_draws_or_blurs_its_key_draws():
    # two that differ in all that is moved: few counts of survival are
    own, other = (DrawKey(bytes([k]) * 32) for k in (1, 2))
    moved = set()
    for table, questions in asked():
        sites = [
            SiteView.of_table(table, min_cell_size=5, device="cpu", keyed=keyed)
            for keyed in (own, own, other, unkeyed)
        ]
        for question in questions:
            for part in question.parts if isinstance(question, Bundle) else (question,):
                first, again, *others = (site.answer(part) for site in sites)
                assert np.array_equal(first, again)
                if not any(np.array_equal(first, answer) for answer in others):
                    moved.add(kind(part))
    assert moved >= {
        ("EdgeVotes", True), ("SiteDifferences", False), ("Moments", False),
        ("LogRankSums", False),
        ("EffectSums", False), ("EffectSums placebo", False), ("EffectSums random-cause", False),
    }  # fmt: skip


def test_what_a_site_trains_follows_from_its_key_too():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.integers(0, 3, (120, 3)), columns=list("abc"))
    rows["experiment"] = np.repeat(["", "a", "b", "c"], 30)
    table = Federation.split(rows, 2, interventions="experiment", device="cpu").sites[0].table
    training = Training(epochs=1, fit_steps=4, graph_steps=4, batch=16, graphs=8, hidden=4)
    question = LocalBeliefs(n_variables=3, round=1, seed=0, aggregation="naive", training=training)
    own, other = (SigningIdentity.generate().draw_key() for _ in range(2))
    first, again, *others = (
        SiteView.of_table(table, min_cell_size=0, device="cpu", keyed=keyed).answer(question)
        for keyed in (own, own, other, unkeyed)
    )
    assert np.array_equal(first, again)
    assert not any(np.array_equal(first, answer) for answer in others)


QUESTION = regrets(5, (0, 0), (3, 0), (0, 0b10), (1, 0b100), (3, 0b10000), (4, 0b11))


def read(folder):
    return load_table(folder.path / "data.csv", Schema.load(folder.path / "schema.toml"))


def test_a_site_draws_alike_after_a_restart_and_two_sites_do_not(hospitals):
    north, south, _ = hospitals.folders.values()
    (south.path / "data.csv").write_bytes((north.path / "data.csv").read_bytes())
    answers = []
    for folder in (north, north, south):
        runtime = hospitals.open(folder.settings().name)
        answers.append(runtime._respondent.answer(QUESTION))
        hospitals.close()
    first, restarted, same_rows = answers
    least = north.policy().min_cell_size
    simulated = SiteView.of_table(read(north), min_cell_size=least, device="cpu")
    assert np.array_equal(first, restarted)
    assert not np.array_equal(first, same_rows)
    assert not np.array_equal(first, simulated.answer(QUESTION))


def test_a_new_identity_draws_anew(hospitals):
    """So a second key of a site is a second blur of the same rows, and two average."""
    folder = next(iter(hospitals.folders.values()))
    before = folder.identity().draw_key()
    folder.identity_path.unlink()
    SigningIdentity.generate().save(folder.identity_path)
    assert folder.identity().draw_key()(b"rows") != before(b"rows")


def test_what_a_site_says_of_itself_is_by_its_key(hospitals, monkeypatch):
    """What it told is told again of: a check of a plan, and by what it stands out."""
    folder = next(iter(hospitals.folders.values()))
    expected, given = folder.identity().draw_key()(b"rows"), []

    def watching(original):
        def watched(*args, keyed, **named):
            given.append(keyed(b"rows"))
            return original(*args, keyed=keyed, **named)

        return watched

    monkeypatch.setattr(SiteView, "of_table", watching(SiteView.of_table))
    parameters = msgspec.to_builtins(FedPC(evidence="vote"))
    rehearsal.plan_checks(folder, hospitals.plan(parameters=parameters))
    site_result._standing_out(folder, Schema.load(folder.path / "schema.toml"), [])
    assert given == [expected] * 2


def test_no_seed_is_shown_copied_or_pickled():
    own = SigningIdentity.generate().draw_key()
    blur = CellKeys(site_rows(), None, own)
    blur.noise([b"key"], [2])
    assert repr(blur) == "CellKeys()"
    held = [value for value in vars(blur).values() if isinstance(value, bytes)]
    assert own(blur._digest) not in held
    assert held == [blur._digest]
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(own)
    for leak in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="holds a secret"):
            leak(blur)
