"""What parties see in a run follows from what they may know, and from nothing else of a site.

The coordinator's view is made anew from plan and opened sums; of runs by verdicts those of every
site, of the coordinator with each, and of pairs of sites, from the verdicts. Where the trust table
of ``docs/explanation/bits.md`` says that two learn sums they are given these sums.
"""

import dataclasses
import itertools
import tempfile
from contextlib import ExitStack, contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import adversary
import numpy as np
import pytest
import replaying
import simulated_view
import site_views
from scipy import stats
from simulated_view import Simulated
from site_views import COORDINATOR, Coalition, told_apart
from trials import CLOSED, REPLAYED, replayed

from cipherdag.privacy.mpc import holding, seat, sharing
from cipherdag.protocol.messages import content_digest
from cipherdag.sites.session import handshake


@contextmanager
def same_chance():
    """Sites draw the same numbers for who deals: whoever simulates a view knows them, too."""
    numbers = itertools.count()

    def chance(_identity, _plan):
        return sha256(str(next(numbers)).encode()).digest()

    with patch.object(handshake, "lasting_chance", chance):
        yield


def real_run(name, protection="masking"):
    """A run with all that was drawn in its rounds of verdicts."""
    with tempfile.TemporaryDirectory() as folder, same_chance(), site_views.overheard() as compared:
        path = Path(folder) / "journal.jsonl"
        real = replaying.run_apart(replayed(name), path, protection, adversary.RecordingEngine)
    real.compared = compared
    return real


once = cache(real_run)


def simulated(name, real, **changes):
    """What a simulator makes of a run, without any site but those inside."""
    made = Simulated(
        plan=real.plan,
        make=replayed(name).algorithm,
        sums=opened(real),
        n_variables=real.facts.n_variables,
        labels=real.facts.labels,
        determined=real.facts.determined,
        schema=bytes(len(schema_of(name))),
    )
    with same_chance(), site_views.overheard() as compared:
        view = dataclasses.replace(made, **changes).run()
    view.compared = compared
    return view


@cache
def views(name, protection):
    """A real run, and what a simulator makes of its plan and its sums without any site."""
    real = once(name, protection)
    return real, simulated(name, real)


@cache
def tables_of(name):
    return [site.table for site in replayed(name).federation().sites]


def schema_of(name):
    return tables_of(name)[0].schema.canonical()


def opened(real):
    return [np.frombuffer(entry.values, dtype="<f8") for entry in real.summed]


def received(engine):
    """Every message: who sends it, in which order, every number in it, how long the rest is."""
    return [
        (operation, simulated_view.outline(reply), len(reply))
        for operation, _, reply in engine.received
    ]


def told(rounds):
    names = ("number", "kind", "label", "values", "n_sites", "aggregate")
    return [[getattr(report, name) for name in names] for report in rounds]


@pytest.mark.parametrize("name", REPLAYED)
def test_the_coordinator_s_view_follows_from_plan_and_opened_sums(name):
    real, made = views(name, "masking")
    assert received(real.engine) == received(made.engine)
    assert simulated_view.asked(real.engine) == simulated_view.asked(made.engine)
    assert told(real.rounds) == told(made.rounds)
    own = real.algorithm
    found = own.conclude(real.outcome, real.facts).decisions
    assert own.conclude(made.outcome, made.facts).decisions == found
    # what all sites say at the end is a digest of plan, opened sums and decisions
    assert set(real.told.values()) == {real.expected()}
    assert len(set(made.told.values())) == 1


def test_how_long_the_schema_is_can_be_told_from_what_is_sealed():
    """The one thing of a site that the view above has beside plan and sums; its text is sealed."""
    real, made = views("fedpc", "masking")
    longer = simulated("fedpc", real, schema=bytes(1 + len(schema_of("fedpc"))))
    assert received(longer.engine) != received(made.engine)


@pytest.mark.parametrize("name", REPLAYED)
def test_the_plan_s_generator_on_opened_sums_asks_the_same(name):
    real, _ = views(name, "masking")
    asked, outcome = simulated_view.questions(
        real.plan, dataclasses.replace(real.facts), opened(real), real.algorithm
    )
    contents = [content_digest(question) for question in asked]
    assert contents == [entry.content for entry in real.summed]
    lengths = [question.n_values for question in asked]
    assert lengths == [len(sums) for sums in opened(real)]
    decisions = real.algorithm.conclude(outcome, real.facts).decisions
    assert decisions == real.algorithm.conclude(real.outcome, real.facts).decisions


@pytest.mark.parametrize("name", REPLAYED)
def test_shares_are_uniform_alone_and_together_real_or_simulated(name):
    real, made = views(name, "masking")
    asked, _ = simulated_view.questions(
        real.plan, dataclasses.replace(real.facts), opened(real), real.algorithm
    )
    samples = []
    for engine, plan in ((real.engine, real.plan), (made.engine, made.plan)):
        words = list(simulated_view.masked_words(engine, asked, plan).values())
        if len({len(own) for own in words}) > 1:  # what a holder has of itself it does not send
            samples.append(words)
            continue
        pairs = [(a + b) % 1.0 for a, b in itertools.combinations(words, 2)]
        samples.append([*words, *pairs, sum(words) % 1.0])
    for truly, simulated in zip(*samples, strict=True):
        assert len(truly) == len(simulated) > 20
        assert stats.kstest(truly, "uniform").pvalue > 1e-9
        assert stats.ks_2samp(truly, simulated).pvalue > 1e-9


# the sites: what every role sees of verdicts is made from verdicts


ALONE = [Coalition(frozenset({site})) for site in range(4)]
TOGETHER = [
    Coalition(frozenset(own)) for own in itertools.combinations((COORDINATOR, *range(4)), 2)
]


def simulated_for(coalition, name, real, *, sums=True):
    """A run in which only the sites of a coalition have rows, and ``sums`` that they may know."""
    tables = tables_of(name)
    learnt = {
        number - 1: own.sums
        for number, own in real.compared.items()
        if sums and coalition.learns_sums(own.roles)
    }
    inside = {site: tables[site] for site in coalition.members if site != COORDINATOR}
    return simulated(name, real, schema=schema_of(name), inside=inside, exact=learnt)


@pytest.mark.parametrize("coalition", [*ALONE, *TOGETHER], ids=str)
@pytest.mark.parametrize("name", CLOSED)
def test_what_sites_see_follows_from_the_verdicts(name, coalition):
    real = once(name)
    made = simulated_for(coalition, name, real)
    assert told_apart(coalition, real, made) == set()
    assert told(real.rounds) == told(made.rounds)


def test_two_of_these_sites_have_every_two_roles():
    for name in CLOSED:
        drawn = {own.roles for own in once(name).compared.values()}
        assert len(drawn) == 1
        (roles,) = drawn
        assert set(roles.sites) == set(range(4))
    learning = [own for own in TOGETHER if own.learns_sums(roles)]
    assert len(learning) == 5  # of six pairs of sites all but the dealer and its twin


@pytest.mark.parametrize("name", CLOSED)
def test_the_simulator_has_other_sums_where_only_verdicts_are_learnt(name):
    real, alone = once(name), ALONE[0]
    made = simulated_for(alone, name, real).compared
    assert any((own.sums != made[number].sums).any() for number, own in real.compared.items())


# power: whatever more a view tells, it is told apart


@contextmanager
def with_small_masks():
    """Neither dealt parts nor what masks a form hides it more than so far."""
    honest, part_words = holding.HolderDraws, sharing.part_words

    def small(batch, seed, place):
        draws = honest(batch, seed, place)
        draws.masks = draws.masks % np.uint64(2)
        return draws

    def short(batch, seed):
        return part_words(batch, seed) % np.uint64(2)

    with ExitStack() as changed:
        for module in (holding, sharing):
            changed.enter_context(patch.object(module, "HolderDraws", small))
        for module in (sharing, seat):
            changed.enter_context(patch.object(module, "part_words", short))
        yield


def show_everyone_what_was_passed(real):
    """The coordinator sends what holders passed each other to everybody, too."""
    _, _, message = next(own for own in reversed(real.engine.sent) if own[0] == "secure")
    real.engine.sent += [("secure", member.name, message) for member in real.plan.cohort]


WEAKENED = ["fedpc vote verdicts", "fedpc stratified verdicts", *CLOSED[-2:]]


@pytest.mark.parametrize("name", WEAKENED[1:])  # of votes on a few edges there is too little noise
def test_a_run_that_masks_less_is_told_apart_by_its_holders(name):
    with with_small_masks():
        real = real_run(name)
    roles = next(iter(real.compared.values())).roles
    for holder in roles.holders:
        alone = Coalition(frozenset({holder}))
        assert told_apart(alone, real, simulated_for(alone, name, real)) >= {"masked forms"}


@pytest.mark.parametrize("name", WEAKENED)
def test_a_view_that_tells_more_is_told_apart(name):
    real = real_run(name)
    for alone in ALONE:
        made = simulated_for(alone, name, real)
        assert told_apart(alone, real, made) == set()
    show_everyone_what_was_passed(real)
    assert told_apart(alone, real, made) == {"messages"}


@pytest.mark.parametrize("name", WEAKENED)
def test_runs_with_the_same_bits_differ_to_who_learns_sums(name):
    """So what they see is made from the sums and not from the verdicts alone."""
    real = once(name)
    pair = next(
        own for own in TOGETHER if any(own.learns_sums(r.roles) for r in real.compared.values())
    )
    made = simulated_for(pair, name, real, sums=False)
    assert told_apart(pair, real, made) == {"sums"}
