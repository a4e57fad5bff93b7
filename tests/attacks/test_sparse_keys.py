"""The attacks on a run where every two sites share a key, on one where a lot says who does."""

import os
from itertools import combinations

import msgspec
import networkx as nx
import numpy as np
import pytest
from adversary import (
    Split,
    Ward,
    expected,
    refused,
    send_instead,
    silence,
    tags_for,
    verdicts,
    votes,
)

from cipherdag import FedPC, LearntGraph, Policy, Run
from cipherdag.errors import (
    CohortError,
    InconsistentQuestionError,
    KeyAgreementError,
    OpeningRefusedError,
    ParameterError,
    ReplayError,
    ShareError,
    SignatureError,
    SiteUnreachableError,
)
from cipherdag.privacy.residues import WORD_MODULI
from cipherdag.privacy.wire import decode
from cipherdag.protocol import plan as plans
from cipherdag.protocol.cohort_channel import refusal_error
from cipherdag.protocol.journal import Journal
from cipherdag.protocol.messages import (
    Recover,
    Recovered,
    Refusal,
    Share,
    Unmask,
    Unmasked,
    read_envelope,
    seal_envelope,
)
from cipherdag.protocol.set_up_messages import Chance, Chances, Commitments, Linked, Offers
from cipherdag.sites.policy.plan_account import plan_lines

N_SITES, LIAR = 8, "hospital-5"


@pytest.fixture(params=["complete", "sparse"])
def graph(request, monkeypatch):
    """Which graph of keys eight sites have, and how many of them a sum covers at least."""
    if request.param == "sparse":
        monkeypatch.setattr(plans, "COMPLETE_UP_TO", 5)
    return request.param


@pytest.fixture
def sparse(monkeypatch):
    monkeypatch.setattr(plans, "COMPLETE_UP_TO", 5)


def fewest(graph):
    return {"complete": 5, "sparse": 7}[graph]


def honest_graph(graph, sites):
    found = nx.Graph()
    found.add_nodes_from(sites)
    found.add_edges_from((a, b) for a in sites for b in graph.peers(a, sites))
    return found


# ------------------------------------------------------------------ runs


def test_each_site_holds_the_keys_of_its_neighbours_alone(graph):
    lie, own = Split(n_sites=N_SITES), {"complete": 7, "sparse": 4}[graph]
    for position in lie.everyone:
        rounds = lie.runtime(position)._current.rounds
        near = set(lie.graph.neighbours(position))
        assert len(near) == own
        assert rounds.keys.graph == lie.graph
        assert set(rounds.keys.aggregation._masks._pair_keys) == near
        assert set(rounds.keys.agreement._keys) == near
        others = set(lie.everyone) - {position}
        whole = position in rounds.keys.secure_tests.context.roles.sites
        assert set(rounds.keys.secure_tests.party._keys) == (
            others if whole else set(rounds.keys.secure_tests.context.roles.sites)
        )
        assert len(lie.shares[position].tags) == len(lie.shares[position].escrow) == own


def test_where_more_leave_than_the_plan_says_the_run_ends_by_name(graph):
    ward = Ward.opened(n_sites=N_SITES)
    for site in ("hospital-1", "hospital-3", "hospital-4", LIAR):
        silence(ward, site, "ask")
    with pytest.raises(SiteUnreachableError, match=f"4 of 8 sites remain, {fewest(graph)} are"):
        ward.session.ask(votes())


@pytest.mark.parametrize("n_sites", [N_SITES, 40])
def test_verdicts_are_found_whoever_shares_keys(graph, n_sites):
    ward = Ward.opened(n_sites=n_sites)
    assert ward.session._graph.whole == (graph == "complete")
    for alpha in (0.01, 0.02):
        asked = verdicts(alpha, n_sites)
        assert (ward.session.ask(asked) == expected(ward, asked, list(ward.tables))).all()
    ward.session.finish()


def test_a_whole_run_comes_to_the_same_as_over_a_complete_graph(monkeypatch, tmp_path):
    def graph_of(limit):
        monkeypatch.setattr(plans, "COMPLETE_UP_TO", limit)
        federation = Ward(n_sites=N_SITES).federation
        return federation.run(FedPC())

    complete, sparse = graph_of(100), graph_of(5)
    assert "4 of the 7 others" in sparse.page()
    assert sparse.to_dict()["keys"] == sparse.keys
    assert "keys" not in complete.to_dict()
    assert not complete.keys
    assert [own.aggregate for own in sparse.rounds] == [own.aggregate for own in complete.rounds]
    assert sparse.to_dict()["edges"] == complete.to_dict()["edges"]
    assert sparse.save(tmp_path).is_dir()
    assert Run.load(tmp_path, LearntGraph).keys == sparse.keys


def test_a_crashed_coordinator_goes_on_over_the_same_graph(graph, tmp_path):
    ward = Ward(n_sites=N_SITES)
    first = ward.new_session(journal=Journal(tmp_path / "journal.jsonl"))
    first.open()
    found = first.ask(votes())
    again = ward.new_session(journal=Journal(tmp_path / "journal.jsonl"))
    again.open()
    assert again._graph == first._graph
    assert (again.ask(votes()) == found).all()
    silence(ward, LIAR, "unmask")
    whole = expected(ward, votes(0.2), list(ward.tables))
    assert (again.ask(votes(0.2)) == whole).all()


# ------------------------------------------------------------------ who is said to be there


def test_no_claim_of_sites_that_left_isolates_an_honest_site(graph):
    """Every choice of sites asked and of the one that colludes; smaller ones are refused."""
    lie = Split(n_sites=N_SITES)
    smallest = fewest(graph)
    for size in range(1, N_SITES + 1):
        for asked in combinations(lie.everyone, size):
            whole = honest_graph(lie.graph, asked)
            if size < smallest:
                if 0 in asked:
                    assert refused(lie.reply("ask", 0, lie.same(2, asked))) is CohortError
                continue
            for colluder in lie.everyone:
                left = whole.subgraph(set(asked) - {colluder})
                assert nx.is_connected(left)
    # what would be reached without that floor: all neighbours of one site are said to have left
    if graph == "sparse":
        alone = sorted(set(lie.everyone) - set(lie.graph.neighbours(0)))
        assert not nx.is_connected(honest_graph(lie.graph, alone))
        assert refused(lie.reply("ask", 0, lie.same(2, tuple(alone)))) is CohortError


@pytest.mark.parametrize("seed", range(4))
def test_a_split_view_of_who_is_asked_opens_nothing(graph, seed):
    """Some sites are told that one left; each sum lacks the seed of a site that was asked."""
    lie = Split(n_sites=N_SITES)
    rng = np.random.default_rng(seed)
    without = lie.everyone[:-1]
    told = set(rng.permutation(N_SITES - 1)[: rng.integers(1, N_SITES - 1)].tolist())
    asks = {k: lie.same(2, without if k in told else lie.everyone) for k in lie.everyone}
    shares = lie.call("ask", asks, Share)
    digests = {share.digest for share in shares.values()}
    assert len(digests) == 2
    released = {digest: set() for digest in digests}
    for site, share in shares.items():
        asked = without if site in told else lie.everyone
        peers, tags = lie.graph.peers(site, asked), []
        for peer in peers:
            other = without if peer in told else lie.everyone
            near = lie.graph.peers(peer, other)
            # the coordinator has no word for a site that its peer was not asked with
            tags.append(shares[peer].tags[near.index(site)] if site in near else bytes(16))
        reply = lie.reply("unmask", site, Unmask(share.digest, tuple(tags)))
        agreed = all(shares[peer].digest == share.digest for peer in peers)
        if agreed:
            decode(read_envelope(reply).body, Unmasked)
            released[share.digest].add(site)
        else:
            assert refused(reply) is InconsistentQuestionError
    for site in told:
        assert not released[shares[site].digest] >= set(without)
    for digest, some in released.items():
        asked = without if digest == shares[min(told)].digest else lie.everyone
        # neither is a seed recovered: fewer than the threshold released theirs
        assert len(some) + 1 < len(asked)


def test_a_rerun_without_one_site_is_refused(graph):
    lie = Split(n_sites=N_SITES)
    lie.call("unmask", lie.unmask(), Unmasked)
    without = lie.everyone[:-1]
    again, following = lie.same(2, without), lie.following(lie.question, lie.shares, 2, without)
    for position in without:
        assert refused(lie.reply("ask", position, again)) is ReplayError
        assert refused(lie.reply("ask", position, following)) is ReplayError


def test_colluders_recover_no_mask_that_others_give_again(graph):
    """Those that are left out of the second sum release their seeds for the first; too few do."""
    lie = Split(n_sites=N_SITES)
    requests, leaving = lie.unmask(), N_SITES - fewest(graph)
    victim = lie.graph.neighbours(0)[0]
    near = lie.graph.peers(victim, lie.everyone)
    # one colludes, and as many as may be left out are honest and opened the first attempt
    helpers = near[: leaving + 1]
    lie.call("unmask", {p: requests[p] for p in helpers}, Unmasked)
    pieces = {}
    for helper in helpers:
        request = Recover(lie.digest, victim, lie.shares[victim].escrow[near.index(helper)])
        pieces[helper] = lie.call("recover", {helper: request}, Recovered)[helper].piece
    assert len(pieces) < lie.declared.threshold
    with pytest.raises(ShareError, match="are needed"):
        lie.ward.session._protection.rebuild(pieces, lie.declared)
    left = tuple(site for site in lie.everyone if site not in helpers[:leaving])
    again = lie.same(2, left)
    honest = [site for site in left if site not in helpers]
    lie.call("ask", dict.fromkeys(honest, again), Share)
    for site in honest:
        if victim in lie.graph.neighbours(site):
            piece = lie.shares[victim].escrow[near.index(site)]
            late = Recover(lie.digest, victim, piece)
            assert refused(lie.reply("recover", site, late)) is ReplayError
    # whoever released the first never answers again
    assert refused(lie.reply("ask", helpers[-1], again)) is ReplayError


def test_masks_come_back_from_asked_neighbours_after_unmasking_only(graph):
    lie = Split(n_sites=N_SITES)
    near = lie.graph.neighbours(3)
    piece = dict(zip(near, lie.shares[3].escrow, strict=True))
    helper = near[0]
    early = Recover(lie.digest, 3, piece[helper])
    assert refused(lie.reply("recover", helper, early)) is OpeningRefusedError
    lie.call("unmask", lie.unmask(), Unmasked)
    for site in set(lie.everyone) - set(near):
        reply = lie.reply("recover", site, Recover(lie.digest, 3, piece[helper]))
        assert refused(reply) is OpeningRefusedError
    for vanished in (helper, N_SITES + 5):  # itself, and none of the cohort
        reply = lie.reply("recover", helper, Recover(lie.digest, vanished, piece[helper]))
        assert refused(reply) is OpeningRefusedError
    wrong = Recover(lie.digest, 3, piece[near[1]])
    assert refused(lie.reply("recover", helper, wrong)) is KeyAgreementError
    assert lie.call("recover", {helper: early}, Recovered)[helper].piece


def test_a_tag_is_for_one_neighbour_and_from_one(graph):
    lie = Split(n_sites=N_SITES)
    honest = tags_for(0, lie.shares, lie.graph)
    first, *others = honest
    near = lie.graph.neighbours(0)[0]
    lies = [
        lie.shares[0].tags, (honest[1], first, *honest[2:]), honest[:-1], (*honest, b""),
        (bytes(16),) * len(honest), (lie.shares[0].tags[0], *others), (first[:-1], *others),
        (tags_for(near, lie.shares, lie.graph)[1], *others), (altered(first), *others),
    ]  # fmt: skip
    for tags in lies:
        reply = lie.reply("unmask", 0, Unmask(lie.digest, tags))
        assert refused(reply) is InconsistentQuestionError
    lie.call("unmask", {0: Unmask(lie.digest, honest)}, Unmasked)


def test_the_share_of_a_site_left_out_stays_hidden(graph):
    hidden = []
    for _ in range(6):
        lie = Split(n_sites=N_SITES)
        lie.call("unmask", lie.unmask(lie.ask(2, lie.everyone[:-1])), Unmasked)
        hidden.append(np.frombuffer(lie.shares[7].share, dtype="<u8"))
    unit = np.concatenate(hidden).astype(np.float64) / WORD_MODULI[0]
    assert abs(unit.mean() - 0.5) < 6 / np.sqrt(12 * unit.size)


# ------------------------------------------------------------------ the set-up


def stopped(operation, change):
    """What each site says to ``operation`` where its messages are ``change(ward, site, body)``."""
    ward, said = Ward(n_sites=N_SITES), {}
    kinds = {"commitments": Commitments, "chances": Chances, "linked": Linked}

    def tamper(own, site, message):
        if own != operation:
            return message
        body = decode(read_envelope(message).body, kinds[operation])
        return ward.message(operation, change(ward, site, body))

    def forge(own, site, reply):
        if own == operation:
            said[site] = reply
        return reply

    ward.engine.tamper, ward.engine.forge = tamper, forge
    with pytest.raises((KeyAgreementError, SignatureError, ReplayError)):
        ward.session.open()
    return {
        site: type(refusal_error(decode(read_envelope(reply).body, Refusal), site))
        for site, reply in said.items()
        if read_envelope(reply).topic == "refusal"
    }


def resigned(ward, name, body, topic="chance"):
    return seal_envelope(
        ward.identities[name],
        session=ward.session._plan.session,
        sender=name,
        topic=topic,
        body=body,
    )


def replaced(envelopes, position, envelope):
    return (*envelopes[:position], envelope, *envelopes[position + 1 :])


def told_by(signer, ward, body, **changes):
    """The liar's number as somebody signs it."""
    told = msgspec.structs.replace(decode(read_envelope(body.envelopes[5]).body, Chance), **changes)
    envelope = seal_envelope(
        signer, session=ward.session._plan.session, sender=LIAR, topic="chance", body=told
    )
    return replaced(body.envelopes, 5, envelope)


NUMBERS = {
    "not committed to": (
        lambda ward, body: told_by(ward.identities[LIAR], ward, body, chance=os.urandom(32)),
        KeyAgreementError,
    ),
    "signed by the coordinator": (
        lambda ward, body: told_by(ward.coordinator, ward, body),
        SignatureError,
    ),
    "left out": (lambda _, body: body.envelopes[:-1], KeyAgreementError),
    "swapped": (lambda _, body: (*body.envelopes[1::-1], *body.envelopes[2:]), SignatureError),
}


@pytest.mark.usefixtures("sparse")
@pytest.mark.parametrize("lie", NUMBERS)
def test_a_number_that_is_not_the_site_s_is_refused_by_every_site(lie):
    change, error = NUMBERS[lie]
    found = stopped("chances", lambda ward, _, body: Chances(envelopes=change(ward, body)))
    assert list(found.values()) == [error] * N_SITES


@pytest.mark.usefixtures("sparse")
def test_sites_that_are_shown_different_offers_do_not_go_on():
    """A liar offers other keys to one site; that one's number speaks of other offers."""

    def change(ward, site, body):
        if site != "hospital-1":
            return body
        offer = ward.runtimes[LIAR]._current.set_up.offer()
        other = msgspec.structs.replace(offer, x25519=bytes(range(32)))
        envelope = resigned(ward, LIAR, other, topic="offer")
        return Commitments(envelopes=replaced(body.envelopes, 5, envelope))

    ward = Ward(n_sites=N_SITES)
    refusals = []

    def tamper(own, site, message):
        if own != "commitments":
            return message
        body = decode(read_envelope(message).body, Commitments)
        return ward.message(own, change(ward, site, body))

    def forge(own, site, reply):
        if own == "chances":
            refusals.append(read_envelope(reply).topic)
        return reply

    ward.engine.tamper, ward.engine.forge = tamper, forge
    with pytest.raises(KeyAgreementError, match="not shown the same offers"):
        ward.session.open()
    assert refusals == ["refusal"] * N_SITES


def altered(link):
    return bytes([link[0] ^ 1]) + link[1:]


LINKS = {
    "ciphertext": lambda links: (altered(links[0]), *links[1:]),
    "word": lambda links: (links[0][:-1] + bytes([links[0][-1] ^ 1]), *links[1:]),
    "swapped": lambda links: (links[1], links[0], *links[2:]),
    "short": lambda links: (links[0][:-1], *links[1:]),
    "missing": lambda links: links[:-1],
    "added": lambda links: (*links, links[0]),
}


@pytest.mark.usefixtures("sparse")
@pytest.mark.parametrize(
    ("victim", "field", "change"),
    [
        *(("hospital-7", "links", change) for change in LINKS.values()),
        (LIAR, "secrets", altered),
        (LIAR, "content", altered),
    ],
)
def test_what_is_linked_or_sealed_is_not_altered_on_its_way(victim, field, change):
    def changed(_, site, body):
        if site != victim:
            return body
        return msgspec.structs.replace(body, **{field: change(getattr(body, field))})

    assert stopped("linked", changed) == {victim: KeyAgreementError}


@pytest.mark.usefixtures("sparse")
def test_a_site_that_links_to_others_than_the_lot_gave_it_is_named():
    ward = Ward(n_sites=N_SITES)
    send_instead(ward, "hospital-0", "chances", links=lambda said: said.links[:-1])
    with pytest.raises(KeyAgreementError, match="the lot gave it") as caught:
        ward.session.open()
    assert caught.value.site == "hospital-0"


@pytest.mark.usefixtures("sparse")
def test_nobody_knows_the_graph_before_all_keys_are_offered():
    """Nothing that leaves a site with its keys tells its number; and a lot is drawn once."""
    ward = Ward.opened(n_sites=N_SITES)
    told = {}
    for operation, site, reply in ward.engine.received:
        if operation == "commitments":
            told[site] = decode(read_envelope(reply).body, Chance).chance
    offers = [reply for operation, _, reply in ward.engine.received if operation == "invite"]
    assert len(set(told.values())) == len(offers) == N_SITES
    assert not any(chance in offer for chance in told.values() for offer in offers)
    rings = set()
    for _ in range(5):
        other = Ward(n_sites=N_SITES)
        other.session.open()
        rings.add(other.session._graph.ring)
    assert len(rings) > 1


@pytest.mark.usefixtures("sparse")
@pytest.mark.parametrize("operation", ["commitments", "chances", "linked"])
def test_a_step_of_the_set_up_is_taken_once_and_in_its_turn(operation):
    ward = Ward(n_sites=N_SITES)
    message = {}

    def tamper(own, site, content):
        message.setdefault(own, content)
        if own == operation and site == "hospital-2":
            body = {"commitments": Commitments, "chances": Chances, "linked": Linked}[own]
            ward.runtimes[site].handle(own, content)
            again = decode(read_envelope(content).body, body)
            changed = (
                msgspec.structs.replace(again, content=b"")
                if own == "linked"
                else msgspec.structs.replace(again, envelopes=again.envelopes[:-1])
            )
            return ward.message(own, changed)
        return content

    ward.engine.tamper = tamper
    with pytest.raises((KeyAgreementError, ReplayError)):
        ward.session.open()


def test_the_messages_of_one_set_up_are_out_of_step_in_the_other(graph):
    ward = Ward(n_sites=N_SITES)
    raw = []

    def forge(own, _, reply):
        if own == "invite":
            raw.append(reply)
        return reply

    steps = [("offers", Offers), ("commitments", Commitments)]
    (right, _), (wrong, body) = reversed(steps) if graph == "sparse" else steps

    def tamper(own, site, message):
        if own == right and site == "hospital-0":
            reply = ward.runtimes[site].handle(
                wrong, ward.message(wrong, body(envelopes=tuple(raw)))
            )
            assert refused(reply) is ReplayError
        return message

    ward.engine.forge, ward.engine.tamper = forge, tamper
    ward.session.open()
    assert (ward.session.ask(votes()) == expected(ward, votes(), list(ward.tables))).all()


# ------------------------------------------------------------------ plans


def test_other_protections_and_few_sites_keep_a_key_for_every_two(monkeypatch):
    monkeypatch.setattr(plans, "COMPLETE_UP_TO", 8)
    assert Ward(n_sites=8).session._plan.key_bounds is None
    assert Ward(n_sites=9).session._plan.key_bounds.degree == 4
    monkeypatch.setattr(plans, "COMPLETE_UP_TO", 5)
    for protection in ("bfv", "none"):
        assert Ward(protection, n_sites=8).session._plan.key_bounds is None


@pytest.mark.usefixtures("sparse")
def test_a_plan_that_no_graph_serves_is_refused_by_makers_and_sites(monkeypatch):
    ward = Ward(n_sites=N_SITES)
    good = ward.session._plan
    monkeypatch.setattr("cipherdag.privacy.key_graph.MOST_COMPLETE", 5)
    with pytest.raises(ParameterError, match="no graph of 6 keys"):
        ward.new_session(colluders=6)
    for change in ({"colluders": 6}, {"min_survivors": 1}, {"min_survivors": -5}):
        plan = msgspec.structs.replace(good, **change)
        message = ward.message("invite", plan, session=plan.session)
        assert refused(ward.runtimes["hospital-0"].handle("invite", message)) is CohortError


@pytest.mark.usefixtures("sparse")
def test_a_plan_says_how_many_keys_and_how_sure_that_is():
    ward = Ward(n_sites=N_SITES, policy=Policy())
    (told,) = [line for line in plan_lines(ward.session._plan) if "shares keys" in line]
    assert "4 of the 7 others" in told
    assert "chance of 0 at most" in told
