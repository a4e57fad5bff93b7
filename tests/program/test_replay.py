"""One run of a program: the same questions for the same sums, shared or not, and in order."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.errors import InconsistentQuestionError, ParameterError, ReplayError
from cipherdag.program.replay import Replay


def adding(n_steps):
    """Asks as many questions, each made of all sums before; returns their total."""
    so_far = 0.0
    for step in range(1, n_steps + 1):
        so_far += (yield f"question {step} after {so_far}").sum()
    return so_far


def sums_of(*values):
    return [None, *(np.array([value], dtype=np.float64) for value in values)]


def carried_out(replay, sums):
    return [replay.advance(step, own) for step, own in enumerate(sums, start=1)]


@given(st.lists(st.floats(-1e9, 1e9), max_size=6))
def test_equal_sums_give_equal_questions_and_outcome(values):
    runs = [Replay(adding(len(values))) for _ in range(2)]
    asked = [carried_out(replay, sums_of(*values)) for replay in runs]
    assert asked[0] == asked[1]
    assert asked[0][-1] is None
    assert all(replay.ended for replay in runs)
    assert runs[0].outcome == runs[1].outcome


def test_a_program_has_ended_only_after_its_last_sum():
    replay = Replay(adding(2))
    assert not replay.ended
    with pytest.raises(AttributeError):
        _ = replay.outcome
    for step, sums in enumerate(sums_of(1.0, 2.0), start=1):
        replay.advance(step, sums)
        assert replay.ended == (step == 3)
    assert replay.outcome == 3.0


def test_a_program_that_asks_nothing_ends_at_its_first_step():
    replay = Replay(adding(0))
    assert replay.advance(1, None) is None
    assert replay.ended
    assert replay.outcome == 0.0


def test_a_sum_cannot_be_altered_once_a_run_has_heard_it():
    replay, own = Replay(adding(2)), np.array([1.0])
    carried_out(replay, [None, own])
    with pytest.raises(ValueError, match="read-only"):
        own[0] = 2.0


# parties that share one run


def test_sharers_of_a_run_get_one_question_and_one_generator_runs():
    ran = []

    def counting():
        ran.append(1)
        ran.append((yield "first").sum())
        return "over"

    replay = Replay(counting())
    for step, sums in enumerate(sums_of(4.0), start=1):
        asked = [replay.advance(step, None if sums is None else sums.copy()) for _ in range(5)]
        assert len(set(asked)) == 1
    assert ran == [1, 4.0]


def test_those_that_share_a_run_may_come_at_once():
    replay = Replay(adding(50))
    wrong = []

    def party():
        mine = Replay(adding(50))
        for step in range(1, 52):
            sums = None if step == 1 else np.array([float(step)])
            barrier.wait(30)  # all come to a step at once
            if replay.advance(step, sums) != mine.advance(step, sums):
                wrong.append(step)

    barrier = threading.Barrier(4)
    threads = [threading.Thread(target=party) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert replay.ended


def test_a_second_sum_for_a_step_is_refused_and_changes_nothing():
    replay = Replay(adding(2))
    first, second = carried_out(replay, sums_of(1.0))
    for other in (2.0, -1.0, float("nan"), np.nextafter(1.0, 2.0), -0.0):
        with pytest.raises(InconsistentQuestionError, match="another sum"):
            replay.advance(2, np.array([other]))
    with pytest.raises(InconsistentQuestionError):
        replay.advance(2, np.array([1.0, 0.0]))
    assert replay.advance(2, np.array([1.0])) == second != first
    assert replay.advance(3, np.array([5.0])) is None
    assert replay.outcome == 6.0


# steps out of order


@pytest.mark.parametrize("step", [-1, 0, 2, 3, 10**9])
def test_a_run_begins_at_its_first_step(step):
    replay = Replay(adding(2))
    for sums in (None, np.ones(1)):
        with pytest.raises(ReplayError, match="not the next one"):
            replay.advance(step, sums)
    assert replay.advance(1, None) == "question 1 after 0.0"


def test_the_first_step_has_no_sum_and_every_other_one_has():
    replay = Replay(adding(2))
    with pytest.raises(ReplayError):
        replay.advance(1, np.ones(1))
    replay.advance(1, None)
    with pytest.raises(ReplayError):
        replay.advance(2, None)
    assert replay.advance(2, np.ones(1)) == "question 2 after 1.0"
    with pytest.raises(ReplayError):
        replay.advance(1, None)  # a step before the last


def test_nothing_follows_the_end():
    replay = Replay(adding(1))
    carried_out(replay, sums_of(1.0))
    assert replay.advance(2, np.ones(1)) is None  # the last step, for another party
    for step in (1, 3, 4):
        with pytest.raises(ReplayError):
            replay.advance(step, np.ones(1))
    assert replay.outcome == 1.0


# programs that fail


@pytest.mark.parametrize("error", [ParameterError("of no use"), ZeroDivisionError("by zero")])
@pytest.mark.parametrize("failing", [1, 2])
def test_a_program_that_failed_fails_for_everybody_and_has_not_ended(error, failing):
    def broken():
        if failing == 1:
            raise error
        yield "first"
        raise error

    replay = Replay(broken())
    sums = sums_of(1.0)
    for step in range(1, failing):
        replay.advance(step, sums[step - 1])
    for _ in range(3):  # a generator that raised once would only seem to have ended
        with pytest.raises(type(error), match=str(error)):
            replay.advance(failing, sums[failing - 1])
    assert not replay.ended
    with pytest.raises(type(error)):
        replay.advance(failing + 1, np.ones(1))


def test_a_program_that_leaves_with_a_stop_of_its_own_fails_by_name():
    def stopping():
        yield "first"
        next(iter(()))

    replay = Replay(stopping())
    replay.advance(1, None)
    with pytest.raises(RuntimeError, match="StopIteration"):
        replay.advance(2, np.ones(1))
    assert not replay.ended
