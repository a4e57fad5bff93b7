"""Drives an algorithm's generator over sites with plain sums: statistics without cryptography."""

from __future__ import annotations

import numpy as np

from cipherdag.sites.answers.respondent import Respondent


def plain_sum(question, respondents):
    """The aggregate that every protection must give for one question."""
    answers = np.array([respondent.answer(question) for respondent in respondents])
    total = answers.sum(axis=0)
    start = 0
    for encoding in question.encodings:
        part = slice(start, start + encoding.length)
        start += encoding.length
        if encoding.comparison:
            total[part] = total[part] > 0
    assert start == len(total)
    return total


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
