"""Plans that ask again what was answered: what a site that lies now learns of the others' rows.

Whoever adds a number to its own answer, and sees which bits turn, bisects the sum of the others. So
a bit that two holders signed is never found again of the same rows: it is told from the record.
"""

from collections import Counter
from dataclasses import replace

import hospital_folders
import msgspec
import pytest
from site_logs import REASONS

from cipherdag import FedPC
from cipherdag.errors import CipherdagError, ForgedSumError, KeyAgreementError, SiteUnreachableError
from cipherdag.privacy.wire import decode
from cipherdag.program.versions import computed_with
from cipherdag.protocol.engines.engine import LocalEngine, SiteFailure
from cipherdag.protocol.journal import Journal
from cipherdag.protocol.messages import Secure, read_envelope
from cipherdag.questions.scores.bit_names import bit_names
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.policy.approvals import Person
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.policy.usage import BitBudget
from cipherdag.sites.record.opened_sums import AskedLine
from cipherdag.sites.session.handshake import SetUp

NAMES = tuple(f"hospital-{k}" for k in range(4))
LIAR = NAMES[1]
ALGORITHM = FedPC(alpha=0.05)


class Counting(LocalEngine):
    """Counts what every site is sent; of the bits of one batch, if named, it lets nothing back."""

    def __init__(self, handlers, *, stops_at=0):
        super().__init__(handlers)
        self.sent, self.stops_at, self.opened = Counter(), stops_at, 0

    def call(self, operation, messages, *, timeout_s):
        self.sent[operation] += len(messages)
        replies = super().call(operation, messages, timeout_s=timeout_s)
        if operation == "secure":
            step = decode(read_envelope(next(iter(messages.values()))).body, Secure).verb
            self.opened += step == "open"
            if step == "open" and self.opened == self.stops_at:
                return {site: SiteFailure("lost") for site in replies}
        return replies


@pytest.fixture
def clinics(tmp_path):
    own = Policy(approve_runs="automatic", max_runs=100)
    hospitals = hospital_folders.hospitals(tmp_path, policy=own, names=NAMES)
    hospitals.installed = True
    yield hospitals
    hospitals.close()


def plan_of(hospitals, algorithm=ALGORITHM):
    parameters = msgspec.to_builtins(algorithm)
    return hospitals.plan(algorithm="fedpc", versions=computed_with(), parameters=parameters)


def run(
    hospitals, handlers, algorithm=ALGORITHM, *, engine=None, journal=None, rounds=None, plan=None
):
    """The questions and bits of a plan's rounds, and the engine that carried them."""
    engine = engine or Counting(handlers)
    plan = plan or (journal and journal.plan) or plan_of(hospitals, algorithm)
    about = {"rounds": rounds, "finishes": rounds is None, "engine": engine, "journal": journal}
    return hospitals.carry_out(handlers, algorithm, plan, **about), engine


def bits(opened):
    """Every bit by its name."""
    found = {}
    for question, sums in opened:
        if question.opens_bits:
            names = bit_names(question)
            each = [names[at : at + 16] for at in range(0, len(names), 16)]
            found |= dict(zip(each, sums.tolist(), strict=True))
    return found


def lie(monkeypatch, hospitals, honest, amount):
    """From now on one site adds a number to all its scores."""
    lines = (hospitals.folders[LIAR].path / "data.csv").read_text("utf-8").splitlines()

    def answer(self, question):
        words = honest(self, question)
        if question.opens_bits and len(self.all_codes) == len(lines) - 1:
            words = words.copy()
            words[: int(question.question.sizes.sum())] += amount
        return words

    monkeypatch.setattr(SiteView, "answer", answer)


def test_a_repeated_plan_is_answered_by_what_was_signed(clinics, monkeypatch):
    handlers = clinics.handlers()
    first, engine = run(clinics, handlers)
    assert engine.sent["secure"] > 0
    honest = SiteView.answer

    def answer(self, question):
        assert not question.opens_bits
        return honest(self, question)

    monkeypatch.setattr(SiteView, "answer", answer)
    second, engine = run(clinics, handlers)
    assert engine.sent["secure"] == 0
    assert [sums.tolist() for _, sums in second] == [sums.tolist() for _, sums in first]


@pytest.mark.parametrize("kept", [True, False])
def test_a_liar_learns_nothing_by_plans_that_ask_again(clinics, monkeypatch, kept):
    """It asks with the same tests among others, at other levels, up to larger sets."""
    handlers = clinics.handlers()
    honest = bits(run(clinics, handlers)[0])
    turned, true = 0, SiteView.answer
    for amount in (-200, 200):
        lie(monkeypatch, clinics, true, amount)
        for algorithm in (ALGORITHM, FedPC(alpha=0.05, max_cond_size=1), FedPC(alpha=0.01)):
            if not kept:
                clinics.forget()
            found = bits(run(clinics, handlers, algorithm)[0])
            turned += sum(found[name] != honest[name] for name in found.keys() & honest.keys())
    assert (turned == 0) == kept


def stopped(hospitals, handlers, batch=1):
    """A run that its coordinator stops as soon as the holders have signed the bits of a batch."""
    with pytest.raises(SiteUnreachableError, match="open"):
        run(hospitals, handlers, engine=Counting(handlers, stops_at=batch))


def test_bits_that_holders_signed_for_a_run_that_stopped_are_these(clinics, monkeypatch):
    handlers = clinics.handlers()
    stopped(clinics, handlers)
    kept = [name for name in NAMES if clinics.folders[name].asked_path.exists()]
    assert len(kept) == 2
    true = SiteView.answer
    lie(monkeypatch, clinics, true, 200)
    told = bits(run(clinics, handlers, rounds=2)[0])
    monkeypatch.setattr(SiteView, "answer", true)
    clinics.forget()
    assert told == bits(run(clinics, handlers, rounds=2)[0])


def lines_of(hospitals, name):
    return len(hospitals.folders[name].asked_path.read_bytes().splitlines())


@pytest.mark.parametrize("lied", [False, True])
def test_a_bit_that_one_holder_alone_signed_is_found_again_once(clinics, monkeypatch, lied):
    """It has to be the same: otherwise it stays with the holders, and nobody can try on."""
    handlers = clinics.handlers()
    stopped(clinics, handlers, batch=2)
    lost = max(NAMES, key=lambda name: lines_of(clinics, name))
    clinics.forget([lost])
    if lied:
        lie(monkeypatch, clinics, SiteView.answer, 200)
        with pytest.raises(ForgedSumError, match="not what a computing party signed before"):
            run(clinics, handlers)
        monkeypatch.undo()
        with pytest.raises(ForgedSumError, match="two answers to one question"):
            run(clinics, handlers)
    else:
        found = bits(run(clinics, handlers)[0])
        again, engine = run(clinics, handlers)
        assert engine.sent["secure"] == 0
        clinics.forget()
        assert found == bits(again) == bits(run(clinics, handlers)[0])


def test_a_site_without_a_digest_of_its_rows_is_named(clinics, monkeypatch):
    """With an empty one the bits of all sites would be found again in every run."""
    true = SetUp.offer

    def offer(self):
        liar = self.plan.names[self.index] == LIAR
        return msgspec.structs.replace(true(self), rows=b"") if liar else true(self)

    monkeypatch.setattr(SetUp, "offer", offer)
    with pytest.raises(KeyAgreementError, match=f"'{LIAR}' shows no digest of its rows"):
        run(clinics, clinics.handlers())


def changed(hospitals, name):
    """One site's data from now on with its last row twice; returns how to change them back."""
    path = hospitals.folders[name].path / "data.csv"
    before = path.read_text("utf-8")
    path.write_text(before + before.splitlines()[-1] + "\n", "utf-8")
    return lambda: path.write_text(before, "utf-8")


def approved(hospitals, handlers):
    """A plan that the sites approve one after the other, and what each was told of it."""
    plan, told = plan_of(hospitals), {}
    for name, folder in hospitals.folders.items():
        if name == LIAR:
            continue
        with pytest.raises(CipherdagError, match="until a person of this site approves it"):
            run(hospitals, handlers, plan=plan)
        (asked,) = filter(folder.approvals().waits, folder.approvals().runs())
        told[name] = asked.consider
        folder.approvals().decide(asked.session, "approved", folder.identity(), Person("A. Weber"))
    return plan, told


def test_other_rows_are_asked_anew_and_old_ones_are_not(clinics):
    handlers = clinics.handlers()
    first, _ = run(clinics, handlers)
    change_back = changed(clinics, LIAR)
    _, engine = run(clinics, handlers)
    assert engine.sent["secure"] > 0
    change_back()
    again, engine = run(clinics, handlers, plan=approved(clinics, handlers)[0])
    assert engine.sent["secure"] == 0
    assert bits(again) == bits(first)


def test_changed_rows_are_named_to_a_person_before_the_next_run(clinics):
    """Whoever changes its rows before every run asks everything anew, but not unseen."""
    handlers = clinics.handlers()
    run(clinics, handlers)
    changed(clinics, LIAR)
    run(clinics, handlers)
    plan, told = approved(clinics, handlers)
    assert {*told} == {*NAMES} - {LIAR}
    assert all(f"the rows of '{LIAR}' changed" in each for each in told.values())
    run(clinics, handlers, plan=plan)
    changed(clinics, LIAR)
    run(clinics, handlers)
    assert approved(clinics, handlers)[1] == told


@pytest.mark.parametrize("cut", [True, False])
def test_a_run_from_the_record_goes_on_after_its_coordinator_stopped(clinics, tmp_path, cut):
    handlers = clinics.handlers()
    first, _ = run(clinics, handlers)
    journal = tmp_path / "journal.jsonl"
    run(clinics, handlers, journal=Journal(journal), rounds=2)
    lines = journal.read_bytes().splitlines(keepends=True)
    assert b'"known":["' in lines[-2]  # what the sites told, and then the end of the round
    journal.write_bytes(b"".join(lines[: -1 if cut else None]))
    again, engine = run(clinics, handlers, journal=Journal(journal))
    assert engine.sent["secure"] == 0
    assert bits(again) == bits(first)


def test_a_line_of_other_rows_or_signed_by_nobody_is_refused(clinics, monkeypatch):
    handlers = clinics.handlers()
    run(clinics, handlers)
    lines = clinics.folders[LIAR].asked_path.read_bytes().splitlines()
    entry = msgspec.json.decode(lines[0], type=AskedLine)
    for change in (
        {"run": bytes(32)},
        {"names": entry.line.names[:-1] + b"?"},
        {"bits": bytes(each ^ 128 for each in entry.line.bits)},
        {"signatures": (bytes(64), bytes(64))},
        {"signatures": (b"", b"")},
    ):
        other = msgspec.structs.replace(entry, line=msgspec.structs.replace(entry.line, **change))
        clinics.folders[LIAR].asked_path.write_bytes(msgspec.json.encode(other) + b"\n")
        with pytest.raises(ForgedSumError, match="both computing parties found|no computing party"):
            run(clinics, handlers)


def test_bits_about_two_columns_are_limited_over_all_runs(clinics):
    """A record answers the same; other rows, resamples and subsets of sites are new, and cost."""
    handlers = clinics.handlers()
    run(clinics, handlers)
    folder = clinics.folders[NAMES[0]]
    budget = BitBudget(folder.policy(), folder.bits_path)
    (pair, first), before = budget.spent.most_common(1)[0], budget.spent
    run(clinics, handlers)
    assert BitBudget(folder.policy(), folder.bits_path).spent == before
    assert f"so far {first} at most, of '{pair[0]}' and '{pair[1]}'" in budget.sentence()
    drawn = FedPC(alpha=0.05, bootstrap=2)
    run(clinics, handlers, drawn)
    after = BitBudget(folder.policy(), folder.bits_path).spent
    assert all(after[each] > before[each] for each in before)
    policy = replace(folder.policy(), max_bits_per_pair=max(after.values()) + 1)
    folder.policy_path.write_text(policy.dumps(), "utf-8")
    run(clinics, handlers, drawn)
    known = len(REASONS)
    with pytest.raises(CipherdagError):
        run(clinics, handlers, FedPC(alpha=0.05, bootstrap=4))
    said = [str(why) for why in list(REASONS.values())[known:]]
    assert any("max_bits_per_pair is" in each for each in said)
