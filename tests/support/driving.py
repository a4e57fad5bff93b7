"""Drives an algorithm's generator over sites with plain sums: statistics without cryptography."""

from __future__ import annotations

import numpy as np
from cipherdag.protocol.verdict_rounds import accepted

from cipherdag.questions.question import finds_verdicts
from cipherdag.sites.answers.respondent import Respondent


def plain_sum(question, respondents):
    """The aggregate that every protection must give for one question."""
    answers = np.array([respondent.answer(question) for respondent in respondents])
    total = answers.sum(axis=0)
    if finds_verdicts(question):
        return plain_verdicts(question, total, len(respondents))
    for encoding, part in parts(question):
        assert within(encoding, answers[:, part]), question.label
        if encoding.comparison:
            total[part] = total[part] > 0
    assert sum(encoding.length for encoding in question.encodings) == len(total)
    return total


def plain_verdicts(question, total, n_sites):
    """Which sums over so many sites the verdicts of a question are true of."""
    sets = accepted(question, n_sites)
    assert (total == np.rint(total)).all()
    assert ((total >= 0) & (total <= sets.most)).all(), question.label
    return ((sets.low <= total) & (total <= sets.high)).any(axis=0).astype(float)


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


def drive(asking, respondents):
    """Run a generator to its end; returns its outcome and the questions it asked."""
    asked = []
    try:
        question = next(asking)
        while True:
            asked.append(question)
            question = asking.send(plain_sum(question, respondents))
    except StopIteration as finished:
        return finished.value, asked


def respondent(test):
    """A site whose every test is this one."""
    return Respondent(test.n_variables, lambda spec: test)
