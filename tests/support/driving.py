"""Drives an algorithm's generator over sites with plain sums: statistics without cryptography."""

import numpy as np
from mpc_cohort import holds

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.program.replay import Replay
from cipherdag.program.run import run_program
from cipherdag.sites.answers.site_view import SiteView

VOTE = FedPC(evidence="vote")


def plain_sum(question, respondents):
    """What every protection must give for one question."""
    answers = np.array([respondent.answer(question) for respondent in respondents])
    if question.opens_bits:
        return plain_verdicts(question, answers)
    total = answers.sum(axis=0)
    for encoding, part in parts(question):
        assert within(encoding, answers[:, part]), question.label
        if encoding.comparison:
            total[part] = total[part] > 0
    assert question.n_values == len(total)
    return total


def plain_verdicts(question, words):
    """The verdicts of a question from the words of all its sites, shape (sites, words)."""
    predicates, total = question.predicates(len(words)), words.sum(axis=0)
    assert words.dtype == np.int64
    assert ((words >= predicates.lowest) & (words <= predicates.highest)).all(), question.label
    assert ((total >= predicates.lowest) & (total <= predicates.highest)).all(), question.label
    assert predicates.n_tests == question.n_values
    return holds(predicates, total).astype(float)


def parts(question):
    """Every segment of a question's answer, and where it lies."""
    start = 0
    for encoding in question.encodings:
        yield encoding, slice(start, start + encoding.length)
        start += encoding.length


def within(encoding, values):
    """Whether a site may answer these values: what rounds to zero is no less than it."""
    if encoding.comparison:
        return np.isin(values, (0.0, 1.0)).all()
    lowest = -encoding.bound if encoding.signed else -(2.0 ** -(encoding.resolution_bits + 1))
    return ((lowest <= values) & (values <= encoding.bound)).all()


def overheard(asking, heard):
    """The same generator, of which every question is noted, with what it is answered."""
    told = None
    try:
        while True:
            question = asking.send(told)
            told = yield question
            heard.append((question, told))
    except StopIteration as finished:
        return finished.value


def answered(asking, answer):
    """Run a generator to its end; its outcome, and every question with what it was answered."""
    heard, told = [], None
    listening = overheard(asking, heard)
    try:
        while True:
            told = answer(listening.send(told))
    except StopIteration as finished:
        return finished.value, heard


def outcome_of(asking):
    """What a generator comes to that has nothing to ask."""
    return answered(asking, None)[0]


def drive(asking, respondents):
    """Run a generator to its end; returns its outcome and the questions it asked."""
    outcome, heard = answered(asking, lambda question: plain_sum(question, respondents))
    return outcome, [question for question, _ in heard]


def outcome_over(session, algorithm=VOTE, n_variables=None):
    """What a program comes to over a session, which is opened unless its variables are told."""
    n_variables = session.open() if n_variables is None else n_variables
    facts = Facts(n_variables, len(session._plan.cohort), min_contributors=3)
    return run_program(session, Replay(algorithm.ask(facts), facts.present))


def respondent(test):
    """A site whose every test is this one."""
    return SiteView(None, None, (0,) * test.n_variables, make_test=lambda spec: test)
