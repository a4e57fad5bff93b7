"""Whatever a run opens is declared, by the question and by the algorithm, before it is asked."""

from __future__ import annotations

import html
import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest
from trials import DRAWN, FOLLOWED, beds, clinics, followed, patients, replayed

from cipherdag import Effect, FedPC, GraphCheck, RFcd, testing
from cipherdag.algorithms.constraint_based.settings import GraphFromTests
from cipherdag.algorithms.describe.algorithm import Describe
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.fedboss.algorithm import FedBOSS
from cipherdag.algorithms.fedcmfs.algorithm import FedCMFS
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.algorithms.registry import ALGORITHMS, make_algorithm, program_digest
from cipherdag.audit.ledger_page import ledger_page
from cipherdag.protocol.plan import Member, make_plan
from cipherdag.questions.disclosure import (
    MOST_WORDS,
    Disclosure,
    Precision,
    Quantity,
    Whose,
    joined,
    sentences,
)
from cipherdag.questions.encodings import Encoding
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.question import Question, question_kinds
from cipherdag.questions.scores.score_bits import RaoBits
from cipherdag.results import sentences as ledger
from cipherdag.sites.policy.plan_account import plan_lines, summary_lines
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import read_releases, verify_ledger
from cipherdag.testing import Trial, opens_only_what_it_declares

ROOT = Path(__file__).parents[2]


def numbers():
    rng = np.random.default_rng(9)
    first = rng.normal(size=900)
    rows = pd.DataFrame({"a": first, "b": first + rng.normal(size=900), "c": rng.normal(size=900)})
    return {name: rows[part::3] for part, name in enumerate(("north", "south", "west"))}


VARIANTS = {
    **{
        f"{kind} {reveal}": (FedPC(evidence=kind, reveal=reveal, bootstrap=1), clinics(4))
        for kind, method in EVIDENCE.items()
        for reveal in ("sums", "bits")
        if reveal == "sums" or method.close is not None
    },
    **{
        f"votes {sepset} {reveal}": (
            FedPC(evidence="vote", voting=Voting(sepset=sepset), reveal=reveal),
            clinics(4),
        )
        for sepset in ("max", "mean", "vote")
        for reveal in ("sums", "bits")
        if reveal == "sums" or sepset == "max"
    },
    "pooled numbers": (FedPC(evidence="pooled", reveal="sums"), numbers()),
    "glm of both": (FedPC(evidence="glm", reveal="sums"), beds()),
    "fedboss of numbers": (FedBOSS(), numbers()),
    "fedboss of both": (FedBOSS(reveal="sums", bootstrap=1), beds()),
    "fedboss pooled": (FedBOSS(within_sites=False), beds()),
    "fedboss pooled numbers": (FedBOSS(within_sites=False), numbers()),
    "fedboss tables": (FedBOSS(within_sites=False), clinics(4)),
    "rfcd nodewise": (RFcd(objective="nodewise"), clinics(4)),
    "rfcd sum": (RFcd(objective="sum"), clinics(4)),
    "graphcheck sums": (GraphCheck(DRAWN, reveal="sums"), patients()),
    **{
        f"effect {estimator}": (
            Effect(treatment="2", outcome="3", adjust="1,4", estimator=estimator, refute=True),
            patients(),
        )
        for estimator in ("regression", "ipw", "aipw")
    },
    "effect by strata": (
        Effect(treatment="2", outcome="3", adjust="4", estimator="standardise"),
        patients(),
    ),
    "survival sums": (replace(FOLLOWED, site_effect=False), followed()),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_opens_only_what_it_declares(variant):
    algorithm, data = VARIANTS[variant]
    opens_only_what_it_declares(Trial(algorithm=algorithm, data=data))


@pytest.mark.parametrize("name", ["survival verdicts", "survival by patient"])
def test_survival_opens_only_what_is_declared(name):
    opens_only_what_it_declares(replayed(name))


def test_a_plan_of_visits_says_what_is_told_of_patients():
    by_patient = replayed("survival by patient")
    visits, persons = (approved(by_patient.algorithm, most) for most in (50, 1))
    for each in (Quantity.PATIENTS, Quantity.SPREAD):
        assert all(each in account for account in visits)
        assert not any(each in account for account in persons)


def named(text):
    """The quantities of a text, of two the longer one where it holds the other."""
    text, found = html.unescape(text), set()
    for each in sorted(Quantity, key=len, reverse=True):
        found |= {each} if each in text else set()
        text = text.replace(each, "")
    return found


def approved(algorithm, visits=1):
    """What a person reads who decides on a plan, in the details and in the summary."""
    plan = make_plan(
        [Member(name=f"hospital-{k}", identity=bytes([k]) * 32, visits=visits) for k in range(3)],
        algorithm=algorithm.name,
        parameters=msgspec.to_builtins(algorithm),
        program=program_digest(algorithm.name),
        protection="masking",
        purpose="Which drugs raise cholesterol?",
        requester="Dr. Grey",
        seed=0,
    )
    account = plan_lines(plan)
    short = summary_lines(plan, account, n_variables=None, policy=Policy())
    return "\n".join(account), "\n".join(short)


SAID = {
    "fedpc": (FedPC(), clinics(4)),
    "fedboss": (FedBOSS(), clinics(4)),
    "fedboss bits": (FedBOSS(reveal="bits"), clinics(4)),
    "fedcmfs": (FedCMFS(k1=100, k2=100), clinics(4)),
    "rfcd": (RFcd(), clinics(4)),
    "effect": (Effect(treatment="2", outcome="3", adjust="1,4", refute=False), patients()),
    **{
        name: VARIANTS[name]
        for name in ("votes max bits", "votes max sums", "fedboss of numbers", "pooled numbers")
    },
}


@pytest.mark.parametrize("variant", SAID)
def test_approval_register_and_report_name_what_is_released(variant):
    algorithm, data = SAID[variant]
    labels = tuple(clinics(4)["north"].columns[1:3]) if algorithm.name == "fedcmfs" else ()
    trial = Trial(algorithm=algorithm, data=data, labels=labels)
    asked = {each for question, _ in testing._heard(trial)[2] for each in question.disclosures}
    result = trial.run()
    lines = result.ledgers[result.sites[0]]
    head = verify_ledger(lines)
    register = ledger_page(read_releases(lines), head, lambda _: result.declared, pinned=False)
    released = named(" ".join(result.releases["meaning"]))
    aside = {each.quantity for each in result.declared} & {Quantity.LABELS}
    assert {each.quantity for each in asked} <= released
    assert released <= {each.quantity for each in result.declared}
    assert released == named(register)
    assert released | aside == named(result.page())
    for said in approved(algorithm):
        assert released <= named(said)
    kinds = {kind for kinds in result.releases["kind"] for kind in kinds.split("+")}
    sealed, of_one = bool(kinds & ledger.CLOSED), any(each.whose == Whose.ONE for each in asked)
    assert ("Any two sites together could read the third" in register) is sealed
    assert ("These numbers are a single site" in html.unescape(result.page())) is of_one
    assert ("of each comparison everybody sees whether any of" in register) is of_one
    for said in approved(algorithm):
        assert said.count("Any two sites together could read the third") >= sealed
        assert said.count("everybody also learns the largest number of any site") >= of_one


@pytest.mark.parametrize("variant", [*SAID, *VARIANTS])
def test_approval_says_who_sees_more_than_sums_of_all_sites(variant):
    algorithm, _ = {**VARIANTS, **SAID}[variant]
    declared = algorithm.disclosures()
    for said in approved(algorithm):
        sealed = any(each.sealed for each in declared)
        of_one = any(each.whose == Whose.ONE for each in declared)
        assert ("Any two sites together could read the third" in said) is sealed
        assert ("everybody also learns the largest number of any site" in said) is of_one


def test_the_table_of_the_front_page_has_every_quantity():
    table = disclosed.leak_table().lower()
    assert [each for each in Quantity if each.lower() not in table] == []


@pytest.mark.parametrize("evidence", ["fisher", "weighted_p", "stratified"])
@pytest.mark.parametrize("reveal", ["sums", "bits"])
def test_every_evidence_of_fedcmfs_opens_only_what_it_declares(evidence, reveal):
    if (evidence, reveal) == ("stratified", "bits"):
        pytest.skip("it opens sums")
    algorithm = FedCMFS(evidence=evidence, reveal=reveal, k1=100, k2=100)
    labels = tuple(clinics(4)["north"].columns[1:3])
    opens_only_what_it_declares(Trial(algorithm=algorithm, data=clinics(4), labels=labels))


@pytest.mark.parametrize("aggregation", ["proximity", "naive"])
def test_every_aggregation_of_fedcd_opens_only_what_it_declares(aggregation):
    own = replayed("fedcd")
    averaging = replace(own.algorithm.averaging, aggregation=aggregation)
    algorithm = replace(own.algorithm, averaging=averaging)
    opens_only_what_it_declares(Trial(algorithm=algorithm, data=own.data, interventions="done"))


def less(disclosures, quantity):
    return tuple(each for each in disclosures if each.quantity != quantity)


@pytest.mark.parametrize(
    ("own", "quantity"),
    [
        (GraphFromTests, Quantity.ROWS),
        (GraphFromTests, Quantity.DECISION),
        (FedCMFS, Quantity.STRONGER),
        (FedBOSS, Quantity.HIGHER),
        (Describe, Quantity.LEFT_OUT),
    ],
    ids=str,
)
def test_an_algorithm_that_hides_something_is_caught(own, quantity, monkeypatch):
    declared = own.disclosures
    monkeypatch.setattr(own, "disclosures", lambda self: less(declared(self), quantity))
    name = getattr(own, "name", "fedpc")
    with pytest.raises(AssertionError, match=f"does not declare {quantity}"):
        opens_only_what_it_declares(replayed(name))


@pytest.mark.parametrize(
    ("kind", "quantity"), [("column-kinds", Quantity.MISSING), ("score-bits", Quantity.DECISION)]
)
def test_a_question_that_hides_something_from_ledgers_is_caught(kind, quantity, monkeypatch):
    monkeypatch.setitem(ledger.DISCLOSED, kind, less(ledger.DISCLOSED[kind], quantity))
    with pytest.raises(AssertionError, match=f"does not declare {quantity}"):
        opens_only_what_it_declares(replayed("fedpc"))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_whatever_is_hidden_or_opened_beyond_is_caught(name, monkeypatch):
    """Each quantity hidden by the algorithm, and each kind of question with a field more."""
    trial = replayed(name)
    heard = testing._heard(trial)
    monkeypatch.setattr(testing, "_heard", lambda _: heard)
    opens_only_what_it_declares(trial)
    parts = {part.kind: part for question, _ in heard[2] for part in question.parts}
    opened = {each for part in parts.values() for each in part.disclosures}
    own, declared = type(trial.algorithm), trial.algorithm.disclosures()
    mutants = [
        (own, "disclosures", lambda _, kept=tuple({*declared} - {gone}): kept) for gone in opened
    ]
    of_kinds = {each for part in parts.values() for each in type(part).discloses}
    unasked = next(each for each in map(Disclosure, Quantity) if each not in {*declared, *of_kinds})
    for kind in {type(part) for part in parts.values()}:
        field, more = "encodings", Encoding(1, 1.0, (unasked,))
        if kind.disclosures is not Question.disclosures:  # bits are opened, and no segment
            field, more = "disclosures", unasked
        read = getattr(kind, field).fget
        mutants.append((kind, field, property(lambda own, r=read, m=more: (*r(own), m))))
    assert len(mutants) >= 2
    for owner, field, mutant in mutants:
        with monkeypatch.context() as patched:
            patched.setattr(owner, field, mutant)
            with pytest.raises(AssertionError, match="does not declare"):
                opens_only_what_it_declares(trial)


sys.path.insert(0, str(ROOT / "docs"))
disclosed = importlib.import_module("disclosures")


@pytest.mark.parametrize("name", disclosed.PAGES)
def test_a_sentence_that_is_changed_on_a_page_is_caught(name, tmp_path, monkeypatch):
    for page in disclosed.PAGES:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / page).write_text((ROOT / page).read_text("utf-8"), "utf-8")
    monkeypatch.setattr(disclosed, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["disclosures.py", "--check"])
    assert disclosed.main() == 0
    before, mark, said = (ROOT / name).read_text("utf-8").partition(disclosed.BEGIN)
    (quantity, *_) = (each for each in Quantity if each in said)
    (tmp_path / name).write_text(before + mark + said.replace(quantity, "nothing", 1), "utf-8")
    assert disclosed.main() == 1


def test_a_value_that_nobody_declared_is_caught(monkeypatch):
    declared = Columns.encodings.fget

    def hidden(self):
        first, *rest = declared(self)
        return (msgspec.structs.replace(first, discloses=()), *rest)

    monkeypatch.setattr(Columns, "encodings", property(hidden))
    with pytest.raises(AssertionError, match="nobody declares some of kinds"):
        opens_only_what_it_declares(replayed("fedpc"))
    with pytest.raises(TypeError, match="discloses"):
        Encoding(length=1, bound=1.0)


def test_a_question_says_no_more_than_its_fields_ask_for():
    plain, full = (
        {each.quantity for each in Columns(3, marks=flag, order=flag, few=flag).disclosures}
        for flag in (False, True)
    )
    assert full - plain == {
        Quantity.ORDERED, Quantity.FEW_VALUES, Quantity.LOCATIONS, Quantity.SITES
    }  # fmt: skip
    every = Columns(3, marks=True, order=True, few=True, visits=2).disclosures
    assert {*Columns.discloses} == {*every}


def test_every_quantity_is_of_some_question_or_of_the_labels():
    """So the list stays closed, and no longer than what there is."""
    asked = {each.quantity for kind in question_kinds().values() for each in kind.discloses}
    assert {*Quantity} - asked == {Quantity.LABELS}


def test_bits_noise_and_one_site_s_numbers_are_no_exact_sums():
    said = sentences(
        [
            Disclosure(Quantity.DECISION, Precision.BIT),
            Disclosure(Quantity.MISSING, Precision.BIT, Whose.ANY),
            Disclosure(Quantity.WORST_REGRET, Precision.ROUNDED, Whose.ONE),
            Disclosure(Quantity.SHARES, Precision.NOISY),
        ]
    )
    assert [each.split(": ")[0] for each in said] == [
        "One bit each of any site, not whose",
        "One bit each over all sites",
        "Sums with noise over all sites",
        "The largest of any site, not whose",
    ]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_sentence_is_long_and_nothing_is_said_twice(name):
    declared = make_algorithm(name, {}).disclosures()
    said = sentences((*declared, *declared))
    assert sum(len(each.split(": ", 1)[1].split("; ")) for each in said) == len(joined(declared))
    assert all(len(each.split()) <= MOST_WORDS for each in said)


def test_the_bits_of_a_second_level_are_named_where_they_are_asked():
    assert Quantity.LENIENT in {each.quantity for each in RaoBits.discloses}
    bits = make_algorithm("fedpc", {"alpha": 0.2}).disclosures()
    assert Disclosure(Quantity.LENIENT, Precision.BIT) in bits
    assert make_algorithm("fedcmfs", {}).disclosures() != bits


def test_releases_say_what_their_kinds_mean():
    releases = replayed("describe").run(policy=Policy(min_cell_size=0)).releases
    meaning = dict(zip(releases["kind"], releases["meaning"], strict=True))
    assert "the number of rows" in meaning["columns+contributors"]
    assert all(said and said != kind for kind, said in meaning.items())


@pytest.mark.parametrize("kinds", ["schema-digest+relations", "label-positions+schema-digest"])
def test_what_travels_with_a_digest_of_the_schema_is_said_beside_it(kinds):
    said = ledger.phrase(kinds)
    assert all(ledger.PHRASES[kind] in said for kind in kinds.split("+"))


OLD = (
    r"kinds of columns, and roughly where",
    r"only ever learns sums",
    r"\bleaves: ClassVar",
    r"Of every test one bit was opened",
    r"def leaves\(self\)",
)


@pytest.mark.parametrize("phrase", OLD)
def test_no_old_sentence_about_what_is_opened_is_left(phrase):
    pages = [*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "CITATION.cff"]
    files = [*(ROOT / "cipherdag").rglob("*.py"), *(ROOT / "docs").glob("*/*.md"), *pages]
    assert not [path.name for path in files if re.search(phrase, path.read_text("utf-8"))]
