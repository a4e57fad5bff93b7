"""The attacks that told every row of every site, tried on sites that run the plan themselves.

Against sites that answered whatever was asked, each of them succeeded within the rules: thresholds
chosen so that one more site answers, and subtraction; limits chosen so that refusing is an answer;
questions of other algorithms; a question asked again after a site was said to have left.
"""

import itertools
from functools import cache

import fuzzing
import msgspec
import numpy as np
import pytest
from adversary import ROWS, Ward, patients, refused, votes
from driving import overheard
from halfway import Halfway

from cipherdag import Federation, FedPC, RFcd
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.rfcd.algorithm import Searching
from cipherdag.errors import (
    CohortError,
    InconsistentQuestionError,
    RefusedError,
    ReplayError,
    SiteUnreachableError,
)
from cipherdag.privacy.wire import encode
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.protocol.engines.engine import SiteFailure
from cipherdag.protocol.messages import Refusal, content_digest, read_envelope
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.pooled_data import Columns, Moments, SmallCells, Tables
from cipherdag.questions.question import Bundle
from cipherdag.questions.regrets import (
    FamilyRegrets,
    GraphRegretExceeds,
    ScoreSpec,
    pack_families,
    pack_graphs,
    pack_thresholds,
)
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.record.ledger import read_releases

P = 5
PLANS = {
    "votes": FedPC(evidence="vote"),
    "joint tests": FedPC(evidence="fisher"),
    "pooled tables": FedPC(evidence="pooled"),
    "regrets": RFcd(searching=Searching(beam=1)),
}
CONSTANT = encode(Refusal(error=RefusedError.__name__, message=""))


def ward_of(algorithm, n_sites=4, rows=None):
    """Sites that can answer every kind of question, and run a plan of the algorithm."""
    ward = Ward(n_sites=n_sites, algorithm=algorithm)
    for name, runtime in ward.runtimes.items():
        table = ward.tables[name] if rows is None else table_of(rows[name], name)
        runtime._respondent = SiteView.of_table(table, min_cell_size=11, device="cpu")
    return ward


@cache
def table_of(rows, name):
    frames = {"h": patients(rows, int(name[-1])), "another": patients(1000, 9)}
    return Federation.simulate(frames, device="cpu").sites[0].table


def triplets(largest=P):
    """All (x, y | S) with so many variables at most."""
    for size in range(largest - 1):
        yield np.array(
            [
                (x, y, *given)
                for x, y in itertools.combinations(range(P), 2)
                for given in itertools.combinations(set(range(P)) - {x, y}, size)
            ]
        )


def evidence(name, threshold, combination="fisher", largest=P):
    """Of all triplets, from the sites with so many rows per cell alone."""
    counts, members = pack_blocks(list(triplets(largest)))
    test = CITestSpec(alpha=0.5, name=name, min_rows_per_cell=threshold)
    return CombinedEvidence(
        n_variables=P,
        test=test,
        combination=combination,
        counts=counts,
        members=members,
        rows_per_cell=1e-3,
    )


def star(alpha, threshold):
    """Is the p-value of 0 and 1 given 2 above alpha, at the sites with so many rows per cell?"""
    edges = np.zeros((P, P), dtype=bool)
    edges[0, [1, 2]] = edges[[1, 2], 0] = True
    test = CITestSpec(alpha=alpha, min_rows_per_cell=threshold)
    return EdgeVotes(skeleton=Skeleton.from_matrix(edges), layer=1, test=test)


def tables(*sets, kind=Tables):
    """Tables of sets of binary variables."""
    blocks = [
        np.array([own for own in sets if len(own) == size]).reshape(-1, size)
        for size in range(1, P + 1)
    ]
    counts, members = pack_blocks(blocks)
    return kind(categories=(2,) * P, counts=counts, members=members)


def moments(origin, unit):
    """Do the column's squares fit, in this unit from this origin?"""
    packed = [np.array([own], kind).tobytes() for own, kind in ((0, "<i8"), (origin, "<f8"))]
    units = np.array([unit], "<i8").tobytes()
    return Moments(n_variables=P, variables=packed[0], origins=packed[1], units=units)


def regrets(threshold):
    """How much worse than its own graph does a site find the empty one?"""
    families, graphs = pack_graphs([(0,) * P])
    return GraphRegretExceeds(
        n_variables=P,
        spec=ScoreSpec(),
        families=families,
        graphs=graphs,
        n_graphs=1,
        thresholds=pack_thresholds(np.array([[threshold]])),
        grid_bits=0,
    )


SIZES = sorted(ROWS, reverse=True)
ATTACKS = {
    "how many rows has each site": [
        Bundle(
            parts=tuple(evidence("g2", rows / 4, "weighted_p", 2) for rows in range(k, 1700, 100))
        )
        for k in range(3)
    ],
    "every row of every site, of the k largest": [
        Bundle(parts=tuple(evidence(name, rows / 4) for name in ("g2", "pearson")))
        for rows in SIZES
    ],
    "every row by edge votes and a chosen alpha": [
        Bundle(parts=tuple(star(own, rows / 8) for own in np.geomspace(1e-300, 0.9, 15).tolist()))
        for rows in SIZES
    ],
    "rows of a site by a bound that it exceeds": [
        Columns(n_variables=P, max_rows=rows) for rows in (1236, 1237, 1428, 1429, 1613)
    ],
    "which site has small counts": [
        tables(tuple(range(P))),
        tables(tuple(range(P)), kind=SmallCells),
    ],
    "a patient without one value": [tables((0,), (0, 1), (0, 2), (0, 1, 2))],
    "mean and deviation by origins and units": [
        moments(origin, -11) for origin in np.linspace(0, 200, 9)
    ],
    "votes of one site by a little more alpha": [votes(0.01 + k * 1e-12) for k in range(1, 5)],
    "answers of other algorithms": [
        FamilyRegrets(
            n_variables=P,
            spec=ScoreSpec(),
            families=pack_families([(0, 0), (1, 1)], P),
            grid_bits=10,
        ),
        *(regrets(threshold) for threshold in (0, 100, 1000)),
    ],
}


def told(reply):
    """What a coordinator can tell of a refusal, whoever signed it."""
    envelope = read_envelope(reply)
    return envelope.topic, envelope.body, len(reply)


# ------------------------------------------------------------------ within a run


@pytest.mark.parametrize("rounds", [0, 1])
@pytest.mark.parametrize("planned", PLANS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_question_of_the_attack_is_answered(attack, planned, rounds):
    run = Halfway(rounds, algorithm=PLANS[planned], ward=ward_of(PLANS[planned]))
    heard = set()
    for question in ATTACKS[attack]:
        for participants in (run.everyone, run.everyone[:3]):
            ask = run.ask(content=content_digest(question), participants=participants)
            for site, runtime in run.ward.runtimes.items():
                before = len(run.ward.ledgers[site].lines)
                reply = run.reply("ask", ask, site)
                asked = int(site[-1]) in participants
                why = InconsistentQuestionError if asked else CohortError
                assert type(runtime.refused) is why
                heard.add(told(reply))
                (line,) = read_releases(run.ward.ledgers[site].lines[before:])
                assert (line.kind, line.bytes, line.values) == ("refusal", len(reply), 0)
    # whatever is asked of whomever, it hears one thing, and nothing is unmasked
    ((topic, body, _),) = heard
    assert (topic, body) == ("refusal", CONSTANT)
    assert run.seeds_that_left() == run.opened
    assert len(run.answers()) == 4  # the plan's own next question is answered all the same


def test_no_kind_of_question_is_answered_off_the_plan():
    run = Halfway(1)
    for question in fuzzing.asked_questions().values():
        own = run.ask(content=content_digest(question))
        assert run.refusals("ask", own) == {InconsistentQuestionError}


def test_answers_to_questions_off_the_plan_do_not_depend_on_rows():
    """Refusing or not was an oracle: here are two worlds, and one transcript."""
    transcripts = []
    for rows in ((1237, 1429, 1613, 1300), (900, 2500, 40, 77)):
        sizes = {f"hospital-{k}": own for k, own in enumerate(rows)}
        run = Halfway(0, ward=ward_of(FedPC(evidence="vote"), rows=sizes))
        heard = []
        for question in itertools.chain.from_iterable(ATTACKS.values()):
            ask = run.ask(content=content_digest(question))
            heard += [told(run.reply("ask", ask, site)) for site in run.ward.runtimes]
        transcripts.append(heard)
    assert transcripts[0] == transcripts[1]
    assert len(set(transcripts[0])) == 1


def declare_gone(ward, *sites):
    """An engine that says these sites do not answer."""
    honest = ward.engine.call

    def call(operation, messages, *, timeout_s):
        there = {site: own for site, own in messages.items() if site not in sites}
        replies = honest(operation, there, timeout_s=timeout_s)
        return replies | {site: SiteFailure("timeout") for site in messages if site in sites}

    ward.engine.call = call


def test_after_a_false_drop_out_no_other_alpha_is_answered():
    run = Halfway(1, ward=ward_of(FedPC(evidence="vote"), n_sites=5))
    rest = run.everyone[:4]
    names = list(run.ward.runtimes)[:4]
    for question in (run.questions[0], votes(0.01 + 1e-12)):
        own = run.ask(participants=rest, content=content_digest(question))
        for changes, why in (
            ({}, InconsistentQuestionError),
            ({"step": 1}, ReplayError),
            ({"step": 1, "previous": b""}, ReplayError),
        ):
            ask = msgspec.structs.replace(own, **changes)
            assert {refused(run.reply("ask", ask, name)) for name in names} == {why}
    assert run.seeds_that_left() == run.opened
    # what is asked of those that are left is what the plan asks next
    declare_gone(run.ward, "hospital-4")
    run.session.ask(run.question)
    assert run.session.rounds[-1].n_sites == 4
    assert run.question != run.questions[0]


# ------------------------------------------------------------------ sites that leave


ROUNDS = 10


def test_so_many_rounds_has_a_run_that_no_site_leaves():
    assert len(carried_out(ward_of(FedPC(evidence="vote"), n_sites=5))) == ROUNDS


@pytest.mark.parametrize("leaves", range(1, ROUNDS + 1))
def test_a_site_that_leaves_gives_a_graph_or_an_error_by_name(leaves):
    """An unnamed IndexError it was, in half of all rounds of separating sets; here, a graph."""
    ward = ward_of(FedPC(evidence="vote"), n_sites=5)
    gone, left, honest = f"hospital-{leaves * 3 % 5}", [], ward.engine.call

    def call(operation, messages, *, timeout_s):
        left.extend([operation] if operation == "ask" else [])
        there = {own: m for own, m in messages.items() if own != gone or len(left) < leaves}
        replies = honest(operation, there, timeout_s=timeout_s)
        return replies | {own: SiteFailure("timeout") for own in messages if own not in there}

    ward.engine.call = call
    rounds = carried_out(ward)
    assert [own.n_sites for own in rounds][leaves - 1 :] == [4] * (len(rounds) - leaves + 1)


def carried_out(ward):
    session, algorithm = ward.session, FedPC(evidence="vote")
    plan, n_variables = session._plan, session.open()
    facts = Facts(
        n_variables, len(plan.cohort), seed=plan.seed, min_contributors=plan.min_contributors
    )
    run_program(session, Replay(algorithm.ask(facts), facts.present))
    session.finish()
    return session.rounds


# ------------------------------------------------------------------ what an honest plan tells


def test_a_missing_value_does_not_show_in_tables_of_an_honest_plan():
    """Nothing is asked off the plan: pooled tables of {x, z} and {x, y, z} are what it needs."""
    frames = {f"h{k}": patients(900 + 100 * k, k).iloc[:, :3].astype(object) for k in range(3)}
    frames["h1"].iloc[17, 1] = None
    seen, heard = {}, []
    algorithm = FedPC(evidence="pooled", alpha=0.5)
    federation = Federation.simulate(frames, device="cpu")
    federation.ask("fedpc", lambda facts: overheard(algorithm.ask(facts), heard))
    for question, sums in heard:
        for part in question.parts:
            if isinstance(part, Tables):
                own = [tuple(row) for rows in part.sets() for row in rows.tolist()]
                ends = np.cumsum([2 ** len(names) for names in own])[:-1]
                seen.update(zip(own, np.split(sums, ends), strict=True))
    of_three = seen[0, 1, 2].reshape(2, 2, 2)
    assert (seen[0, 2].reshape(2, 2) == of_three.sum(axis=1)).all()


def test_a_question_off_the_plan_reaches_no_site_of_a_session():
    """The whole attack as a program: its first round ends the run, at every site by name."""
    ward = ward_of(FedPC(evidence="vote"))
    ward.session.open()

    def stealing():
        yield from ATTACKS["every row of every site, of the k largest"]

    with pytest.raises(SiteUnreachableError):
        run_program(ward.session, Replay(stealing()))
    assert {type(own.refused) for own in ward.runtimes.values()} == {InconsistentQuestionError}
    assert ward.session.rounds == ()
