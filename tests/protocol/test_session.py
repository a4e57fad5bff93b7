"""A run over real messages: equal bits under every protection, and every lie refused by name."""

from dataclasses import replace

import adversary
import msgspec
import numpy as np
import plain_masks
import pytest
from adversary import (
    CATEGORIES,
    NAMES,
    ROWS,
    Ward,
    every_integer,
    expected,
    hospitals,
    recorded,
    tags_for,
)
from site_logs import refused

from cipherdag import FedPC, Policy
from cipherdag.algorithms.fedpc.algorithm import Voting
from cipherdag.errors import (
    AggregateRangeError,
    CohortError,
    InconsistentQuestionError,
    KeyAgreementError,
    MalformedMessageError,
    OpeningRefusedError,
    ParameterError,
    PrivacyError,
    ReplayError,
    SchemaMismatchError,
    SignatureError,
    SiteComputationError,
    SiteUnreachableError,
)
from cipherdag.privacy.keys.identity import SigningIdentity
from cipherdag.privacy.residues import WORD_MODULI, Packing
from cipherdag.privacy.wire import decode, encode
from cipherdag.program.replay import Replay
from cipherdag.protocol.cohort_channel import refusal_error
from cipherdag.protocol.messages import (
    OPERATIONS,
    Ask,
    Envelope,
    Open,
    Refusal,
    Share,
    Unmask,
    content_digest,
    read_envelope,
)
from cipherdag.protocol.plan import Member, Plan, make_plan
from cipherdag.protocol.set_up_messages import Offers, Sealed
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.skeleton import EdgeVotes, Skeleton

PROTECTIONS = ("masking", "bfv", "none")
MODULUS = WORD_MODULI[0]
FULL = Skeleton.from_matrix(~np.eye(len(NAMES), dtype=bool))
VOTES = EdgeVotes(skeleton=FULL, layer=0, test=CITestSpec(alpha=0.01))


def variant(number):
    """The same question but for a trifle: a question is never opened twice."""
    spec = CITestSpec(alpha=0.01, min_rows_per_cell=5.0 + number * 1e-6)
    return msgspec.structs.replace(VOTES, test=spec)


def with_body(message, **changes):
    """The same envelope with a changed body, its signature left as it was."""
    envelope = msgspec.msgpack.decode(message, type=Envelope)
    return encode(msgspec.structs.replace(envelope, **changes))


@pytest.mark.parametrize("protection", ["masking", "bfv"])
def test_no_name_category_or_row_count_travels(protection):
    federation, engines = recorded(hospitals(protection))
    federation.run(FedPC(evidence="vote", voting=Voting(sepset="mean")))
    carried = [m for _, _, m in engines[0].sent + engines[0].received]
    for text in (*NAMES, *CATEGORIES):
        for encoding in ("utf-8", "utf-16-le", "latin-1"):
            assert not any(text.encode(encoding) in message for message in carried)
    integers = set().union(*(every_integer(message) for message in carried))
    assert not integers & set(ROWS)


def shares_of(engine, site):
    return [
        decode(read_envelope(reply).body, Share).share
        for operation, name, reply in engine.received
        if operation == "ask" and name == site
    ]


def test_masked_shares_say_nothing_alone_or_together():
    ward = Ward.opened("masking", n_sites=4)
    for number in range(200):
        ward.session.ask(variant(number))
    shares = np.array(
        [
            [np.frombuffer(share, dtype="<u8") for share in shares_of(ward.engine, site)]
            for site in ward.tables
        ]
    )
    answers = [runtime._respondent.answer(VOTES) for runtime in ward.runtimes.values()]
    # the answer is the same in every round, so a mean over rounds would show it
    for subset in ([0], [1], [0, 1], [1, 2, 3], [0, 2, 3]):
        unit = shares[subset].sum(axis=0) % MODULUS / MODULUS
        assert abs(unit.mean() - 0.5) < 7 / np.sqrt(12 * unit.size)
        assert np.abs(unit.mean(axis=0) - 0.5).max() < 7 / np.sqrt(12 * 200)
        for site in range(4):
            answer = answers[site]
            if answer.std() > 0:
                noise = [np.corrcoef(row, answer)[0, 1] for row in unit[:, -len(answer) :]]
                assert abs(np.mean(noise)) < 7 / np.sqrt(200 * (len(answer) - 1))
    # not even all shares together say anything before the sites release their seeds
    total = shares.sum(axis=0) % MODULUS / MODULUS
    assert abs(total.mean() - 0.5) < 7 / np.sqrt(12 * total.size)


def test_one_flipped_bit_in_a_share_is_refused():
    for protection in PROTECTIONS:

        def forge(operation, site, reply):
            if operation == "ask" and site == "hospital-1":
                return reply[:-80] + bytes([reply[-80] ^ 1]) + reply[-79:]
            return reply

        federation, _ = recorded(hospitals(protection), forge=forge)
        with pytest.raises((SignatureError, MalformedMessageError)) as caught:
            federation.run(FedPC(evidence="vote"))
        assert caught.value.site == "hospital-1"


def test_one_flipped_bit_in_a_signature_is_refused_on_both_sides():
    def flip(message):
        envelope = msgspec.msgpack.decode(message, type=Envelope)
        bad = bytes([envelope.signature[0] ^ 1]) + envelope.signature[1:]
        return with_body(message, signature=bad)

    to_site, _ = recorded(hospitals(), tamper=lambda o, s, m: flip(m) if o == "ask" else m)
    with pytest.raises(SignatureError):
        to_site.run(FedPC(evidence="vote"))
    from_site, _ = recorded(hospitals(), forge=lambda o, s, r: flip(r) if o == "ask" else r)
    with pytest.raises(SignatureError):
        from_site.run(FedPC(evidence="vote"))


class Liar:
    """A site's aggregation whose shares are changed before they leave."""

    def __init__(self, honest, change):
        self.honest = honest
        self.change = change

    def share(self, answer, declaration):
        return self.change(self.honest.share(answer, declaration))

    def __getattr__(self, name):
        return getattr(self.honest, name)


def lie(runtime, change):
    rounds = runtime._current.rounds
    rounds.keys = replace(rounds.keys, aggregation=Liar(rounds.keys.aggregation, change))


def test_a_share_cut_short_is_refused():
    ward = Ward.opened()
    lie(ward.runtimes["hospital-2"], lambda share: share[:-8])
    with pytest.raises(SiteUnreachableError, match="cut short") as caught:
        ward.session.ask(VOTES)
    assert caught.value.site == "hospital-2"


def all_votes(vote):
    """The end of a share of three sites in which every vote is this number."""
    own = Packing.of(FULL.n_edges, 2 * (3 + 1), 0, MODULUS)
    words = plain_masks.packed([vote] * own.length, 0, own.base, own.digits)
    return np.array([word % MODULUS for word in words], dtype="<u8").tobytes()


@pytest.mark.parametrize("vote", [5, 7, -10])
def test_a_lying_site_that_answers_out_of_range_is_caught_by_the_sum(vote):
    ward = Ward.opened("none")
    votes = all_votes(vote)
    lie(ward.runtimes["hospital-0"], lambda share: share[: -len(votes)] + votes)
    with pytest.raises(AggregateRangeError, match="segment 0 of the sum .* cannot produce"):
        ward.session.ask(VOTES)


def test_a_wrong_sum_names_its_origin_what_was_right_and_a_remedy():
    ward = Ward.opened("none")
    ward.session.ask(VOTES)
    votes = all_votes(5)
    lie(ward.runtimes["hospital-0"], lambda share: share[: -len(votes)] + votes)
    with pytest.raises(AggregateRangeError) as caught:
        ward.session.ask(OTHER)
    sites = "'hospital-0', 'hospital-1', 'hospital-2'"
    assert caught.value.message.startswith(f"round 2 over {sites}: segment 0 of the sum")
    assert caught.value.message.endswith("sums in order before it: 1")
    assert "disjoint groups of at least min_sites" in caught.value.remedy


OTHER = msgspec.structs.replace(VOTES, test=CITestSpec(alpha=0.5))


def as_other(ask):
    """The same request for another question."""
    return msgspec.structs.replace(ask, content=content_digest(OTHER))


def split_question(ward):
    """Ask one site another question than the others, correctly signed; its plan asks it."""
    rounds = ward.runtimes["hospital-1"]._current.rounds
    rounds.program = replace(rounds.program, replay=Replay(question for question in [OTHER]))

    def tamper(operation, site, message):
        if operation == "ask" and site == "hospital-1":
            return ward.message("ask", as_other(decode(read_envelope(message).body, Ask)))
        return message

    ward.engine.tamper = tamper


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_a_split_question_is_refused_by_every_site_and_named(protection):
    ward = Ward.opened(protection)
    split_question(ward)
    with pytest.raises(InconsistentQuestionError) as caught:
        ward.session.ask(VOTES)
    assert caught.value.site == "hospital-1"
    replies = [reply for operation, _, reply in ward.engine.received if operation == "ask"]
    shares = {p: decode(read_envelope(reply).body, Share) for p, reply in enumerate(replies)}
    assert len({share.digest for share in shares.values()}) == 2
    for position, runtime in enumerate(ward.runtimes.values()):
        tags = tags_for(position, shares)
        request = ward.message("unmask", Unmask(shares[position].digest, tags))
        assert refused(runtime.handle("unmask", request)) is InconsistentQuestionError
        assert "did not agree" in runtime.refused.message


def test_set_up_is_repeated_byte_for_byte_or_not_at_all():
    ward = Ward.opened()
    runtime = ward.runtimes["hospital-0"]
    replies = {o: r for o, site, r in ward.engine.received if site == "hospital-0"}
    sent = {o: m for o, site, m in ward.engine.sent if site == "hospital-0"}
    for operation, message in sent.items():
        assert runtime.handle(operation, message) == replies[operation]
    plan = decode(read_envelope(sent["invite"]).body, Plan)
    assert plan == ward.session._plan
    swapped = msgspec.structs.replace(plan, cohort=plan.cohort[::-1])
    reply = runtime.handle("invite", ward.message("invite", swapped))
    assert refused(reply) is MalformedMessageError  # a session carries out the plan it is named by
    for topic, kind in (("offers", Offers), ("sealed", Sealed)):
        body = decode(read_envelope(sent[topic]).body, kind)
        other = ward.message(topic, kind(envelopes=body.envelopes[::-1]))
        assert refused(runtime.handle(topic, other)) is ReplayError
    assert refused(runtime.handle("dance", b"")) is ReplayError


@pytest.mark.parametrize("other", [{"session": b"x" * 16}, {"key": SigningIdentity.generate()}])
def test_neither_another_session_nor_a_stranger_is_answered(other):
    ward = Ward.opened()
    asked = ward.message("ask", ward.asking(VOTES), **other)
    assert refused(ward.runtimes["hospital-0"].handle("ask", asked)) is SignatureError


def ask_once(ward):
    ward.session.open()
    ward.session.ask(VOTES)


def test_bfv_opens_nothing_but_the_whole_sum_of_this_round():
    ward = Ward("bfv")
    seen = []
    ward.engine.tamper = lambda o, s, m: (seen.append(m), m)[1] if o == "open" else m
    ask_once(ward)
    honest = decode(read_envelope(seen[0]).body, Open)
    shares = {name: shares_of(ward.engine, name)[0] for name in ward.tables}
    for runtime in ward.runtimes.values():
        for share in shares.values():
            rigged = ward.message("open", msgspec.structs.replace(honest, combined=share))
            assert refused(runtime.handle("open", rigged)) is OpeningRefusedError
    late = ward.message("open", msgspec.structs.replace(honest, digest=b"d" * 32))
    assert refused(ward.runtimes["hospital-0"].handle("open", late)) is ReplayError
    without = ward.message("open", msgspec.structs.replace(honest, seeds=honest.seeds[:2]))
    assert refused(ward.runtimes["hospital-0"].handle("open", without)) is OpeningRefusedError


def test_nothing_is_opened_before_the_site_released_its_seed():
    ward = Ward.opened("bfv")
    ward.engine.tamper = lambda o, s, m: b"" if o == "unmask" else m
    with pytest.raises(PrivacyError):
        ward.session.ask(VOTES)
    share = shares_of(ward.engine, "hospital-0")[0]
    bound_to = decode(read_envelope(ward.engine.received[-4][2]).body, Share).digest
    request = ward.message("open", Open(digest=bound_to, combined=share, seeds=(b"",) * 3))
    assert refused(ward.runtimes["hospital-0"].handle("open", request)) is OpeningRefusedError


def test_masking_and_none_refuse_to_open_anything():
    for protection in ("masking", "none"):
        ward = Ward(protection)
        ask_once(ward)
        bound_to = ward.runtimes["hospital-0"]._current.rounds.current.declared.digest
        share = shares_of(ward.engine, "hospital-0")[0]
        request = ward.message("open", Open(digest=bound_to, combined=share, seeds=(b"",) * 3))
        assert refused(ward.runtimes["hospital-0"].handle("open", request)) is OpeningRefusedError


def test_keys_swapped_doubled_or_altered_on_their_way_are_refused():
    def swap(envelopes):
        return (envelopes[1], envelopes[0], *envelopes[2:])

    def double(envelopes):
        return (envelopes[0], envelopes[0], *envelopes[2:])

    def drop(envelopes):
        return envelopes[:-1]

    def alter(envelopes):
        changed = msgspec.msgpack.decode(envelopes[2], type=Envelope)
        body = changed.body[:-3] + bytes([changed.body[-3] ^ 1]) + changed.body[-2:]
        return (*envelopes[:2], with_body(envelopes[2], body=body))

    for step, kind in (("offers", Offers), ("sealed", Sealed)):
        for change in (swap, double, drop, alter):
            ward = Ward()

            def tamper(operation, site, message, change=change, step=step, kind=kind, ward=ward):
                if operation != step or site != "hospital-1":
                    return message
                body = decode(read_envelope(message).body, kind)
                return ward.message(step, kind(envelopes=change(body.envelopes)))

            ward.engine.tamper = tamper
            with pytest.raises((SignatureError, KeyAgreementError)):
                ward.session.open()


def test_a_cohort_is_what_every_site_has_pinned():
    ward = Ward(n_sites=4)
    members = [Member(name=n, identity=k) for n, k in ward.pinned.items()]
    stranger = SigningIdentity.generate().public
    lies = {
        CohortError: [
            members[:1],
            [*members[:3], members[2]],
            [*members, Member(name="unknown", identity=stranger)],
        ],
        SignatureError: [[*members[:3], Member(name="hospital-3", identity=stranger)]],
    }
    for error, cohorts in lies.items():
        for cohort in cohorts:
            session = ward.new_session(members=cohort)
            with pytest.raises(error):
                session.open()


def test_a_site_outside_the_cohort_refuses_to_join():
    ward = Ward(n_sites=4)
    members = tuple(Member(name=n, identity=k) for n, k in ward.pinned.items())
    plan = make_plan(members[:3], protection="masking", algorithm="fedpc")
    message = ward.message("invite", plan, session=plan.session)
    assert refused(ward.runtimes["hospital-3"].handle("invite", message)) is CohortError


@pytest.mark.parametrize(("colluders", "fewest"), [(0, 3), (1, 3), (2, 4), (3, 4)])
def test_a_run_says_how_many_colluding_sites_it_is_safe_against(colluders, fewest):
    ward = Ward(n_sites=4, policy=Policy(tolerated_colluders=colluders))
    session = ward.new_session(colluders=colluders)
    session.open()
    assert session._plan.colluders == colluders
    assert session._plan.min_survivors == fewest
    assert (session.ask(VOTES) == expected(ward, VOTES, list(ward.tables))).all()


def test_a_run_safe_against_fewer_colluders_than_asked_is_refused():
    ward = Ward(n_sites=5, policy=Policy(tolerated_colluders=2))
    for colluders in (0, 1):
        with pytest.raises(CohortError, match=f"tolerates {colluders} .* asks for 2"):
            ward.new_session(colluders=colluders).open()
    with pytest.raises(CohortError, match="tolerates 1"):
        ward.session.open()
    assert ward.new_session(colluders=2).open() == len(NAMES)


@pytest.mark.parametrize("n_sites", [1, 2, 3, 5])
def test_a_run_against_as_many_colluders_as_sites_is_no_run(n_sites):
    ward = Ward(n_sites=5)
    members = [Member(name=n, identity=k) for n, k in ward.pinned.items()][:n_sites]
    assert ward.new_session(members=members)._plan.colluders == min(1, n_sites - 1)
    for colluders in (-1, max(n_sites, 2), 99):
        with pytest.raises(ParameterError, match=f"against {colluders} colluding") as caught:
            ward.new_session(members=members, colluders=colluders)
        assert caught.value.exit_code == 2


def test_another_schema_stops_the_run_and_names_no_column(caplog):
    ward = Ward()
    other = ward.tables["hospital-1"].schema.canonical().replace(b"Theft", b"Thefts")
    ward.runtimes["hospital-1"] = ward.runtime("hospital-1", schema=other)
    ward.engine._handlers["hospital-1"] = ward.runtimes["hospital-1"].handle
    with pytest.raises(SchemaMismatchError) as caught:
        ward.session.open()
    assert caught.value.site == "hospital-1"
    assert "Theft" not in str(caught.value)
    assert not any(b"Theft" in reply for _, _, reply in ward.engine.received)
    assert "Thefts" in caplog.text


def test_what_fails_inside_a_site_stays_inside(caplog):
    ward = Ward.opened()

    def broken(question):
        raise RuntimeError("row 17 holds Alice")

    vars(ward.runtimes["hospital-0"]._respondent)["answer"] = broken
    with pytest.raises(SiteComputationError) as caught:
        ward.session.ask(VOTES)
    assert caught.value.exit_code == 4
    assert not any(b"Alice" in reply for _, _, reply in ward.engine.received)
    assert "Alice" in caplog.text


@pytest.mark.parametrize("junk", [b"", b"\x00", b"\xc1" * 50, b"{}", bytes(2000)])
def test_junk_is_refused_by_name(junk):
    ward = Ward.opened()
    for operation in OPERATIONS:
        assert issubclass(
            refused(ward.runtimes["hospital-0"].handle(operation, junk)), PrivacyError
        )


def test_an_unknown_refusal_is_itself_malformed():
    for name in ("SystemExit", "os", "ClassVar", "__doc__"):
        error = refusal_error(Refusal(error=name, message="x"), "a")
        assert isinstance(error, SiteComputationError)


def test_replacing_the_wire_does_not_change_the_result():
    one = hospitals().run(FedPC(evidence="vote"))
    other = replace(hospitals(), wire=adversary.RecordingEngine).run(FedPC(evidence="vote"))
    assert one.finding.graph == other.finding.graph
