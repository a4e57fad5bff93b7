"""Sites that die, hang, return garbage or come late, and coordinators that lie about it."""

from types import SimpleNamespace

import pytest
from adversary import (
    CrashError,
    Split,
    Ward,
    expected,
    hospitals,
    recorded,
    refused,
    send_instead,
    silence,
    tags_for,
    votes,
)

from cipherdag import FedPC, Policy
from cipherdag.errors import (
    AggregateRangeError,
    CohortError,
    InconsistentQuestionError,
    OpeningRefusedError,
    OutputError,
    ReplayError,
    ShareError,
    SignatureError,
    SiteUnreachableError,
)
from cipherdag.protocol import plan as plans
from cipherdag.protocol.engines.engine import SiteFailure
from cipherdag.protocol.journal import GivenUp, Journal
from cipherdag.protocol.messages import Ask, Recover, Share, Unmask, Unmasked, declaration
from cipherdag.protocol.plan import fewest_survivors

PROTECTIONS = ("masking", "bfv", "none")
STEPS = ("ask", "unmask")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("protection", "n_sites", "complete_up_to"),
    [
        *((own, 4, plans.COMPLETE_UP_TO) for own in PROTECTIONS),
        ("masking", 8, 8),
        ("masking", 8, 5),
    ],
)
def test_one_site_dies_at_each_step(monkeypatch, protection, n_sites, complete_up_to, step, after):
    monkeypatch.setattr(plans, "COMPLETE_UP_TO", complete_up_to)
    ward = Ward.opened(protection, n_sites=n_sites)
    silence(ward, "hospital-2", step, after=after)
    sites = list(ward.tables)
    others = [site for site in sites if site != "hospital-2"]
    found = ward.session.ask(votes())
    in_sum = sites if step == "unmask" else others
    assert (found == expected(ward, votes(), in_sum)).all()
    assert [(d.site, d.step) for d in ward.session.dropouts] == [
        ("hospital-2", {"ask": "share", "unmask": "unmask"}[step])
    ]
    following = ward.session.ask(votes(0.2))
    assert (following == expected(ward, votes(0.2), others)).all()
    assert ward.session.rounds[-1].n_sites == n_sites - 1
    recovered = {site for operation, site, _ in ward.engine.sent if operation == "recover"}
    near = {sites[own] for own in ward.session._graph.neighbours(2)}
    assert recovered == (near if protection != "none" and step == "unmask" else set())
    assert set(ward.session.finish()) == set(others)


def test_the_opening_site_dies_and_another_steps_in():
    ward = Ward.opened("bfv", n_sites=4)
    silence(ward, "hospital-1", "open")
    found = ward.session.ask(votes())
    assert (found == expected(ward, votes(), list(ward.tables))).all()


@pytest.mark.parametrize(
    ("protection", "step"), [*((own, "ask") for own in PROTECTIONS), ("masking", "unmask")]
)
def test_the_death_of_one_of_three_sites_stops_with_cause_and_remedy(protection, step):
    ward = Ward.opened(protection, n_sites=3)
    silence(ward, "hospital-2", step)
    with pytest.raises(SiteUnreachableError, match="2 of 3 sites remain, 3 are needed") as caught:
        ward.session.ask(votes())
    assert caught.value.site == "hospital-2"
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_two_of_seven_that_die_leave_the_sum_of_those_asked_again(protection):
    ward = Ward.opened(protection, n_sites=7)
    silence(ward, "hospital-1", "ask")
    silence(ward, "hospital-3", "unmask")
    found = ward.session.ask(votes())
    others = [site for site in ward.tables if site != "hospital-1"]
    assert (found == expected(ward, votes(), others)).all()
    left = [(d.site, d.round, d.step, d.in_sum) for d in ward.session.dropouts]
    assert left == [("hospital-1", 1, "share", False), ("hospital-3", 2, "unmask", True)]
    assert ward.session.rounds[-1].n_sites == 6


def test_sites_that_are_asked_again_do_not_compute_again():
    ward = Ward.opened(n_sites=4)
    respondent = ward.runtimes["hospital-0"]._respondent
    answers, original = [], respondent.answer
    vars(respondent)["answer"] = lambda question: answers.append(question) or original(question)
    silence(ward, "hospital-2", "ask")
    ward.session.ask(votes())
    assert [o for o, s, _ in ward.engine.sent if s == "hospital-0"].count("ask") == 2
    assert len(answers) == 1
    ward.session.ask(votes(0.2))
    assert len(answers) == 2


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_a_whole_run_goes_on_without_a_site_and_says_so(protection):
    calls = []

    def forge(operation, site, reply):
        calls.append(operation)
        gone = site == "hospital-3" and len(calls) > 30
        return SiteFailure("timeout") if gone else reply

    rows = (1237, 1429, 1613, 1300)
    federation, _ = recorded(hospitals(protection, rows=rows), forge=forge)
    result = federation.run(FedPC(evidence="vote"))
    assert [dropout.site for dropout in result.dropouts] == ["hospital-3"]
    assert result.rounds[-1].n_sites == 3
    assert "hospital-3" in result.to_dict()["dropouts"][0]["site"]


def test_garbage_and_shares_of_wrong_length_are_left_out():
    for garbage in (b"", b"\x00" * 500, b"\xc1"):
        ward = Ward.opened(n_sites=4)
        ward.engine.forge = lambda o, s, r, g=garbage: g if s == "hospital-0" else r
        found = ward.session.ask(votes())
        assert (found == expected(ward, votes(), list(ward.tables)[1:])).all()
        assert "not a message" in ward.session.dropouts[0].reason


def test_a_failed_signature_is_never_a_mere_drop_out():
    ward = Ward.opened(n_sites=4)
    ward.engine.forge = lambda o, s, r: r[:-1] + bytes([r[-1] ^ 1]) if s == "hospital-0" else r
    with pytest.raises(SignatureError):
        ward.session.ask(votes())


def test_the_site_decides_that_no_drop_out_is_tolerated():
    ward = Ward.opened(n_sites=4, policy=Policy(allow_dropouts=False))
    silence(ward, "hospital-2", "ask")
    with pytest.raises(CohortError, match="at least 4"):
        ward.session.ask(votes())


def test_the_fewest_survivors_follow_the_rule():
    def fewest(n, c):
        return Policy(tolerated_colluders=c).fewest_survivors(n)

    assert [fewest(n, 1) for n in (3, 4, 5, 10, 100)] == [3, 3, 4, 6, 51]
    assert [fewest(n, 3) for n in (5, 10, 100)] == [5, 7, 52]
    for n in range(3, 40):
        for c in range(n - 1):
            # no two admissible sets of survivors share none but colluders
            assert 2 * fewest(n, c) - n > c or fewest(n, c) == n


def test_a_split_view_of_who_is_asked_is_refused():
    lie = Split()
    # sites 0 to 2 are told that 3 left and are asked again; 3 is left believing that all are there
    without = lie.ask(2, (0, 1, 2))
    assert {len(share.tags) for share in without.values()} == {2}
    assert len({share.digest for share in without.values()} | {lie.digest}) == 2
    assert without[0].share != lie.shares[0].share
    for position, request in lie.unmask().items():
        reply = lie.reply("unmask", position, request)
        if position < 3:
            assert refused(reply) is ReplayError
    # 3 opens its side of the first attempt, and nobody helps it to be opened
    requests = lie.unmask(without)
    assert refused(lie.reply("unmask", 3, requests[0])) is ReplayError
    lie.call("unmask", requests, Unmasked)
    for position in (0, 1, 2):
        piece = lie.shares[3].escrow[position]
        for digest, expected_error in ((lie.digest, ReplayError),
                                       (without[0].digest, OpeningRefusedError)):  # fmt: skip
            reply = lie.reply("recover", position, Recover(digest, 3, piece))
            assert refused(reply) is expected_error


def test_a_site_unmasks_only_on_the_word_of_all_others():
    lie = Split()
    away = Split()
    foreign = away.shares
    tags = tags_for(3, lie.shares)
    for wrong in (tags_for(3, foreign), tags[:2], (), (*tags, tags[0]), (*tags[:2], b"")):
        reply = lie.reply("unmask", 3, Unmask(lie.digest, wrong))
        assert refused(reply) is InconsistentQuestionError
    # asked for something else under the same number, a site answers nothing at all
    assert refused(lie.reply("ask", 3, lie.other(votes(0.3), 1))) is ReplayError
    # and under the next one it knows that its plan asks something else
    assert refused(lie.reply("ask", 3, lie.other(votes(0.3)))) is InconsistentQuestionError
    lie.call("unmask", {3: Unmask(lie.digest, tags)}, Unmasked)


def test_sites_with_different_questions_give_each_other_no_word():
    """Were one site brought to ask something else, its answer would open nothing."""
    lie = Split()
    own = lie.ask(2, lie.everyone)
    lie.runtime(3)._current.rounds._question = votes(0.3)
    told = lie.other(votes(0.3), 3)
    shares = lie.call("ask", dict.fromkeys((0, 1, 2), lie.same(3)) | {3: told}, Share)
    assert len({share.digest for share in shares.values()}) == 2
    for site, request in lie.unmask(shares).items():
        assert refused(lie.reply("unmask", site, request)) is InconsistentQuestionError
        old = Unmask(own[site].digest, tags_for(site, own))
        assert refused(lie.reply("unmask", site, old)) is ReplayError


def test_a_site_that_gives_its_word_to_some_sites_only_is_left_out():
    ward = Ward.opened(n_sites=4)
    send_instead(ward, "hospital-1", tags=lambda share: share.tags[:-1])
    found = ward.session.ask(votes())
    others = [site for site in ward.tables if site != "hospital-1"]
    assert (found == expected(ward, votes(), others)).all()
    (left,) = ward.session.dropouts
    assert left.site == "hospital-1"
    assert "one for every other site" in left.reason


def test_the_sites_asked_are_sorted_known_and_include_the_site():
    lie = Split(n_sites=4)
    for asked in ((1, 2, 3), (0, 1, 2, 9), (2, 1, 0, 3), (0, 0, 1, 2), (-1, 0, 1, 2)):
        again = lie.same(2, asked)
        assert refused(lie.reply("ask", 0, again)) is CohortError


def test_what_opens_a_sum_leaves_too_few_sites_for_another_one():
    for n_sites in range(2, 30):
        for colluders in range(n_sites):
            fewest = fewest_survivors(n_sites, colluders)
            for asked in range(fewest, n_sites + 1):
                ask = Ask(number=1, participants=tuple(range(asked)), step=1, content=bytes(32))
                plan = SimpleNamespace(cohort=range(n_sites), colluders=colluders, key_bounds=None)
                threshold = declaration(votes(), ask.participants, bytes(32), plan).threshold
                assert 0 <= threshold < asked
                # an honest site that released its seed never answers the question again
                released = (threshold or asked) - colluders
                assert n_sites == fewest or n_sites - released < fewest


def test_a_site_that_left_cannot_be_brought_back_to_shift_the_sum():
    lie = Split()
    shares = lie.ask(2, (0, 1, 2))
    lie.call("unmask", lie.unmask(shares), Unmasked)
    back = lie.following(votes(0.3), shares, 3, lie.everyone)
    assert refused(lie.reply("ask", 0, back)) is CohortError
    assert len(lie.call("ask", {0: lie.following(votes(0.3), shares, 3, (0, 1, 2))}, Share)) == 1


def test_forged_seeds_or_shares_never_make_a_plausible_sum():
    def altered(said):
        return said.seed[:-1] + bytes([said.seed[-1] ^ 1])

    ward = Ward.opened(n_sites=4)
    send_instead(ward, "hospital-1", "unmask", seed=altered)
    with pytest.raises((AggregateRangeError, ShareError)):
        ward.session.ask(votes())


@pytest.mark.parametrize("protection", PROTECTIONS)
@pytest.mark.parametrize("operation", ["ask", "unmask", "open"])
def test_a_crashed_coordinator_goes_on_where_it_was(protection, operation, tmp_path):
    ward = Ward(protection, n_sites=4)
    questions = [votes(alpha) for alpha in (0.01, 0.05, 0.1, 0.2)]
    journal = tmp_path / "journal.jsonl"

    def session():
        return ward.new_session(protection, journal=Journal(journal))

    first = session()
    first.open()
    sums = [first.ask(questions[0]), first.ask(questions[1])]
    if operation == "open" and protection != "bfv":
        operation = "unmask"
    ward.engine.forge = lambda o, s, r: (_ for _ in ()).throw(CrashError) if o == operation else r
    with pytest.raises(CrashError):
        first.ask(questions[2])
    ward.engine.forge = lambda o, s, r: r
    second = session()
    assert second.open() == 5
    again = [second.ask(question) for question in questions]
    for question, total in zip(questions, again, strict=True):
        assert (total == expected(ward, question, list(ward.tables))).all()
    assert (again[0] == sums[0]).all()
    assert second.dropouts == ()
    rounds = [m for o, s, m in ward.engine.sent if o == "ask" and s == "hospital-0"]
    assert len(set(rounds)) == 4
    asked_again = session()
    asked_again.open()
    with pytest.raises(OutputError, match="other parameters"):
        asked_again.ask(votes(0.44))


def test_a_journal_of_another_run_is_refused(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text('{"type":"other"}\n')
    with pytest.raises(OutputError, match="not the journal"):
        Journal(path)


def test_a_journal_whose_last_line_was_cut_short_is_mended(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.write(GivenUp(number=1, present=(0, 1)))
    with path.open("ab") as file:
        file.write(b'{"type":"summ')
    assert Journal(path).entries == (GivenUp(number=1, present=(0, 1)),)
    assert path.stat().st_mode & 0o077 == 0
