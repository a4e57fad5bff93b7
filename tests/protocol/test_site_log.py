"""The site's own log: what keeps coming is written once, and counted."""

import logging
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.protocol.site_log import HOUR_BYTES, MOST_KEPT, QUIET_S, STILL_S, OnceHandler

WAITS = "run 3f9c02d1 does not begin yet: the run waits until a person of this site approves it"


@pytest.fixture
def log(tmp_path):
    """Says sentences at given seconds, and reads what stands in the file."""
    made = Log(tmp_path / "site.log")
    yield made
    made.close()


class Log:
    def __init__(self, path):
        self.path = path
        self.handler = OnceHandler(path, encoding="utf-8")
        self.handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))

    def say(self, second, text=WAITS, *, level=logging.WARNING, failure=None, values=()):
        about = {
            "args": values,
            "name": "cipherdag.site",
            "levelno": level,
            "msg": text,
            "created": float(second),
        }
        about["levelname"] = logging.getLevelName(level)
        if failure is not None:
            about["exc_info"] = (type(failure), failure, None)
        self.handler.handle(logging.makeLogRecord(about))

    def lines(self):
        return self.path.read_text("utf-8").splitlines()

    def close(self):
        self.handler.close()
        return self.lines()


def test_a_plan_that_waits_all_day_is_said_once_and_once_an_hour(log):
    """A coordinator asks every two seconds: 14,400 refusals in eight hours."""
    for second in range(0, 8 * 3600, 2):
        log.say(second)
    first, *hourly = log.close()
    assert first == f"WARNING {WAITS}"
    assert len(hourly) == 8
    assert hourly[0] == f"WARNING 1800 times more in 60 min: {WAITS}"
    counted = sum(int(re.search(r"(\d+) times more", line)[1]) for line in hourly)
    assert counted == 8 * 1800 - 1


def test_what_comes_again_after_a_while_is_new(log):
    log.say(0)
    log.say(2)
    log.say(2 + QUIET_S + 1)
    assert log.close() == [
        f"WARNING {WAITS}",
        f"WARNING once more in 2 s: {WAITS}",
        f"WARNING {WAITS}",
    ]


def test_two_plans_that_ask_in_turn_are_two_sentences(log):
    for second in range(0, 100, 2):
        log.say(second, f"run {second % 4} waits")
    assert log.lines() == ["WARNING run 0 waits", "WARNING run 2 waits"]
    assert log.close()[2:] == [
        "WARNING 24 times more in 96 s: run 0 waits".replace("96 s", "2 min"),
        "WARNING 24 times more in 96 s: run 2 waits".replace("96 s", "2 min"),
    ]


def test_that_the_run_begins_sums_up_what_waited(log):
    for second in (0, 2, 4):
        log.say(second)
    log.say(5, "run 3f9c02d1 begins", level=logging.INFO)
    assert log.lines() == [
        f"WARNING {WAITS}",
        f"WARNING 2 times more in 4 s: {WAITS}",
        "INFO run 3f9c02d1 begins",
    ]
    log.say(6)
    assert log.lines()[-1] == f"WARNING {WAITS}"


def test_failures_and_levels_are_told_apart(log):
    for failure in (ValueError("a"), ValueError("a"), ValueError("b"), KeyError("a")):
        log.say(0, "failed on ask", level=logging.ERROR, failure=failure)
    log.say(0, "failed on ask")
    said = [line for line in log.close() if "failed on ask" in line]
    assert said == [
        *["ERROR failed on ask"] * 3,
        "WARNING failed on ask",
        "ERROR once more in 0 s: failed on ask",
    ]


def test_what_is_written_plainly_stays_as_it_was_for_other_handlers(log):
    record = logging.makeLogRecord(
        {"levelno": logging.WARNING, "msg": "refused %s", "args": ("a\x1b[2Jb",)}
    )
    log.handler.handle(record)
    assert "\x1b" not in log.close()[0]
    assert (record.msg, record.args) == ("refused %s", ("a\x1b[2Jb",))


def test_ever_new_sentences_do_not_fill_the_memory(log):
    for number in range(5 * MOST_KEPT):
        log.say(0, f"refused {number}")
        log.say(0, f"refused {number}")
    assert len(log.handler._sentences) == MOST_KEPT
    lines = log.close()
    assert len(lines) == 2 * 5 * MOST_KEPT
    assert not log.handler._sentences


def test_sentences_of_one_pattern_take_few_bytes_of_an_hour(log):
    """Whatever names of files or plans somebody makes up; other sentences have room."""
    for number in range(2_000):
        log.say(2 * number, "refused %s", values=(f"{number:>500}",))
    log.say(2 * number, "not ready")
    size = log.path.stat().st_size
    assert size < 4 * HOUR_BYTES
    assert log.lines()[-1] == "WARNING not ready"
    left_out = [re.match(r"\w+ (\d+) more of this kind", line) for line in log.close()]
    counted = sum(int(each[1]) for each in left_out if each)
    written = sum("refused " in line for line in log.lines()) - sum(map(bool, left_out))
    assert counted + written == 2_000


@given(st.integers(0, 2**32), st.integers(1, 300))
def test_every_sentence_is_written_or_counted(tmp_path_factory, seed, n_said):
    """Written lines and counts add up to what was said, whatever came when."""
    source = random.Random(seed)
    log = Log(tmp_path_factory.mktemp("log") / "site.log")
    said, second = dict.fromkeys("abc", 0), 0.0
    for _ in range(n_said):
        second += source.choice([0.1, 2.0, 30.0, QUIET_S, QUIET_S + 1, STILL_S])
        text = source.choice("abc")
        level = source.choice([logging.WARNING, logging.WARNING, logging.INFO])
        log.say(second, text, level=level)
        said[text] += 1
    counted = dict.fromkeys("abc", 0)
    for line in log.close():
        more = re.fullmatch(r"\w+ (?:(once|\d+) (?:times )?more in \d+ (?:s|min): )?([abc])", line)
        counted[more[2]] += int(more[1].replace("once", "1")) if more[1] else 1
    assert counted == said
