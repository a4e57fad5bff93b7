"""Messages as files: what arrives, what is refused by name, and what a crash leaves."""

import contextlib
import hashlib
import logging
import os
import random
import threading
import time
import tracemalloc
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from files_share import ASK, SECRET, SITES, TIMEOUT_S, Share
from waiting import wait_until

from cipherdag.deployment.coordinator_folder import CoordinatorFolder
from cipherdag.deployment.shared_folder import files_engine
from cipherdag.errors import KeyAgreementError, ParameterError, SiteNotReadyError
from cipherdag.privacy.keys.pairkeys import PairKey
from cipherdag.privacy.wire import encode
from cipherdag.protocol.engines import folder
from cipherdag.protocol.engines.channel import Call
from cipherdag.protocol.engines.engine import SiteFailure
from cipherdag.protocol.engines.files import NO_FOLDER, NOT_A_CALL
from cipherdag.protocol.engines.folder import (
    TO_COORDINATOR,
    TO_SITE,
    DirectionKey,
    Receiver,
    Sender,
)

KEYS = {name: PairKey(hashlib.sha256(name.encode()).digest()) for name in SITES}
LATER = 6 * 10**12, 10**13  # numbers that come after all of the run


@pytest.fixture
def share(tmp_path):
    with contextlib.ExitStack() as up:
        yield Share(tmp_path, up)


def key(direction=TO_SITE, site="north", study="study", pair=None):
    return DirectionKey(pair or KEYS["north"], direction, study=study, site=site)


def named(number, content, *, length=None, digest=None):
    digest = digest or hashlib.sha256(content).hexdigest()
    return f"{number:013}-{len(content) if length is None else length}-{digest}.sealed"


# what passes


def test_one_file_lies_in_each_direction_and_shows_its_length_alone(share):
    for message in (b"first plan", b"second plan", b"third plan"):
        assert share.echoes(message)
    for name in SITES:
        for direction in (TO_SITE, TO_COORDINATOR):
            (file,) = share.at(name, direction).iterdir()
            content = file.read_bytes()
            number, length, digest = file.name.removesuffix(".sealed").split("-")
            assert number.isdigit()
            assert int(length) == len(content)
            assert digest == hashlib.sha256(content).hexdigest()
            assert not any(word in content for word in (b"plan", ASK.encode(), b"study"))
            assert file.stat().st_mode & 0o077 == 0o044


def test_a_site_that_is_not_there_fails_alone(share):
    share.stop("south")
    replies = share.engine.call(ASK, dict.fromkeys((*SITES, "nowhere"), b"x"), timeout_s=1.0)
    assert replies == {
        "north": b"north:x",
        "south": SiteFailure("timeout"),
        "west": b"west:x",
        "nowhere": SiteFailure("unreachable"),
    }
    assert share.engine.present(timeout_s=1.0) == {"north", "west"}
    share.start("south")
    assert share.engine.present(timeout_s=TIMEOUT_S) == set(SITES)
    assert share.asked["south"] == []  # a greeting is none of the site's messages


def test_the_text_of_an_exception_stays_at_the_site(share, caplog):
    replies = share.engine.call(ASK, {"north": b"raise"}, timeout_s=TIMEOUT_S)
    assert replies == {"north": SiteFailure("failed")}
    assert SECRET in caplog.text
    files = [path for path in share.path.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in files)


def test_an_operation_that_a_site_does_not_know_is_refused_unread(share):
    replies = share.engine.call("shell", {"north": b"x"}, timeout_s=TIMEOUT_S)
    assert replies == {"north": SiteFailure("failed")}
    assert share.asked["north"] == []
    wait_until(lambda: any("operation" in what for what in share.refused("north")))


def test_what_is_too_long_is_not_sent(share, monkeypatch):
    monkeypatch.setattr("cipherdag.protocol.engines.files.MAX_MESSAGE_BYTES", 10)
    with pytest.raises(ParameterError, match="longer than an engine carries"):
        share.engine.call(ASK, {"north": b"x" * 11}, timeout_s=1.0)
    with pytest.raises(ParameterError, match="64 bytes"):
        share.engine.call("x" * 65, {"north": b"x"}, timeout_s=1.0)


# what is refused


def hostile(draw, genuine, where):
    """Puts a file of each kind there; gives the sentences that refuse them."""
    made = []

    def put(why, what=None, *, name="{}", **odd):
        number, content = (draw.randrange(*LATER), draw.randbytes(draw.randrange(40, 400)))
        written = content if what is None else what(content)
        path = where / name.format(named(number, content, **odd))
        path.write_bytes(written)
        made.extend([why] if why else [])

    put(folder.ODD_NAME, name="x{}")
    put(folder.ODD_NAME, name="{} (conflicted copy)")
    (where / draw.randbytes(8).hex()).mkdir()
    made.append(folder.ODD_NAME)
    put(folder.TOO_LONG, length=folder.MOST_BYTES + 1)
    put(folder.OVERLONG, lambda content: content + b"x")
    put(folder.CUT_SHORT, lambda content: content[:-1])
    put(folder.CUT_SHORT, lambda _: b"")
    put(folder.ALTERED, digest="0" * 64)
    put(folder.NOT_SEALED)
    replayed = genuine.read_bytes()
    (where / named(draw.randrange(*LATER), replayed)).write_bytes(replayed)
    made.append(folder.NOT_SEALED)
    for kind in (lambda at: at.symlink_to("/etc/hostname"), Path.mkdir, os.mkfifo):
        # not first a file: the other end may read it before it is replaced
        kind(where / named(draw.randrange(*LATER), draw.randbytes(40)))
        made.append(folder.NOT_PLAIN)
    put(None, name=".upload-{}")
    put(None, name="{}.part")
    return made


@pytest.mark.parametrize("direction", [TO_SITE, TO_COORDINATOR])
def test_hostile_files_are_refused_by_name_and_the_run_goes_on(share, direction, caplog):
    caplog.set_level(logging.INFO)
    for link in share.engine._links.values():
        link._receiver._stale_s = 0.3
    draw, placed, refused = random.Random(1), [], Counter()

    def all_refused(most):
        if direction == TO_COORDINATOR:  # who waits for a reply looks
            link = share.engine._links["north"]
            assert link._receiver.next(link.sent) is None
        refused.clear()
        refused.update(refusals(share, direction, caplog))
        return refused.total() >= most

    assert share.echoes(b"before")
    for number in range(17):
        (genuine,) = [p for p in share.at("north", direction).iterdir() if is_genuine(p)]
        placed += hostile(draw, genuine, share.at("north", direction))

        wait_until(partial(all_refused, len(placed)))
        assert share.echoes(b"message %d" % number)
    assert len(placed) > 200
    assert refused == Counter(placed)
    assert share.refused("south") == set()
    assert share.asked["north"] == share.asked["south"]
    assert all(site.running for site in share.sites.values())


def refusals(share, direction, caplog):
    """How often what was refused in the folder of a site."""
    if direction == TO_SITE:
        for notice in share.noticed["north"]:
            if notice.refused:
                yield from [notice.what] * notice.times
        return
    for record in caplog.records:
        if record.message.startswith("refused, of site 'north', "):
            yield record.args[1]


def is_genuine(path):
    """Whether it is a file of the engine itself: the only one that unseals."""
    try:
        number = int(path.name[:13])
        for direction in (TO_SITE, TO_COORDINATOR):
            with contextlib.suppress(KeyAgreementError):
                key(direction).unseal(number, path.read_bytes())
                return True
    except (ValueError, OSError):
        pass
    return False


def test_a_received_file_is_refused_when_somebody_puts_it_back(share):
    assert share.echoes(b"first")
    (old,) = share.at("north", TO_SITE).iterdir()
    name, content = old.name, old.read_bytes()
    assert share.echoes(b"second")
    assert not old.exists()
    (share.at("north", TO_SITE) / name).write_bytes(content)
    wait_until(lambda: folder.RECEIVED in share.refused("north"))
    assert share.asked["north"] == [b"first", b"second"]
    assert share.echoes(b"third")


@pytest.mark.parametrize("call", [b"\xff no call", encode(Call(b"t" * 16, ASK, b"x")) + b"\x00"])
def test_a_sealed_file_that_is_no_call_is_refused(share, call):
    Sender(share.at("north", TO_SITE), key()).send(9 * 10**12, call)
    wait_until(lambda: NOT_A_CALL in share.refused("north"))
    assert share.asked["north"] == []


@pytest.mark.parametrize(
    "other", [key(TO_COORDINATOR), key(site="south"), key(study="another"), key(pair=KEYS["south"])]
)
def test_a_seal_is_for_one_direction_site_study_and_pair(other):
    sealed = key().seal(7, b"content")
    assert key().unseal(7, sealed) == b"content"
    with pytest.raises(KeyAgreementError):
        other.unseal(7, sealed)
    with pytest.raises(KeyAgreementError):
        key().unseal(8, sealed)
    assert key().seal(7, b"content") == sealed
    assert key().seal(8, b"content")[:12] != sealed[:12]
    assert key().seal(7, b"other")[:12] != sealed[:12]
    assert "a secret" in repr(other)


def test_more_files_than_are_looked_at_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "MOST_FILES", 20)
    said = []
    receiver = Receiver(tmp_path, key(), lambda why, _name: said.append(why))
    for number in range(30):
        (tmp_path / f".{number}.tmp").touch()
    for _ in range(3):
        assert receiver.next(0) is None
    assert said == [folder.TOO_MANY]


# shares that are late, partial, gone


def test_a_file_that_grows_is_taken_once_it_is_whole(tmp_path):
    said = []
    receiver = Receiver(tmp_path, key(), lambda why, _name: said.append(why), stale_s=60.0)
    content = key().seal(5, b"m" * 1000)
    path = tmp_path / named(5, content)
    for end in (0, 1, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:end])
        assert receiver.next(0) is None
    path.write_bytes(bytes(len(content)))  # space that a tool takes before it fills it
    assert receiver.next(0) is None
    path.write_bytes(content)
    os.utime(path, ns=(0, 0))
    assert receiver.next(0) == (5, b"m" * 1000)
    assert said == []


def test_a_file_of_holes_costs_no_memory_and_is_refused(tmp_path):
    """Thousands of the longest take no room in a share; each was read whole, again and again."""
    said = []
    receiver = Receiver(tmp_path, key(), lambda why, _name: said.append(why), stale_s=0.0)
    for number in range(5, 8):
        path = tmp_path / named(number, b"", length=folder.MOST_BYTES, digest=f"{number:064}")
        path.write_bytes(b"begun")
        os.truncate(path, folder.MOST_BYTES)
    content = key().seal(9, b"ours")
    (tmp_path / named(9, content)).write_bytes(content)
    tracemalloc.start()
    assert receiver.next(0) == (9, b"ours")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    receiver.next(9)
    assert said == [folder.CUT_SHORT] * 3


def test_a_file_that_was_given_up_is_taken_when_it_is_whole_after_all(tmp_path):
    said = []
    receiver = Receiver(tmp_path, key(), lambda why, _name: said.append(why), stale_s=0.0)
    content = key().seal(5, b"late")
    path = tmp_path / named(5, content)
    path.write_bytes(content[:9])
    for _ in range(3):
        assert receiver.next(0) is None
    assert said == [folder.CUT_SHORT]
    path.write_bytes(content)
    assert receiver.next(0) == (5, b"late")


def test_a_message_is_taken_though_one_before_it_comes_late(tmp_path):
    said = []
    receiver = Receiver(tmp_path, key(), lambda why, _name: said.append(why))
    for number in (6, 5):
        content = key().seal(number, b"%d" % number)
        (tmp_path / named(number, content)).write_bytes(content)
        assert receiver.next(6 if said or number == 5 else 0) == (
            (6, b"6") if number == 6 else None
        )
    assert said == [folder.RECEIVED]


def test_a_share_that_is_gone_for_a_while_is_waited_for(share):
    assert share.echoes(b"first")
    away = share.path.with_name("away")
    replies = {}

    def ask():
        replies.update(share.engine.call(ASK, dict.fromkeys(SITES, b"x"), timeout_s=TIMEOUT_S))

    share.path.rename(away)
    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: any(notice.what == NO_FOLDER for notice in share.noticed["north"]))
    away.rename(share.path)
    asking.join(TIMEOUT_S)
    assert replies == {name: name.encode() + b":x" for name in SITES}


def test_a_folder_that_became_a_link_is_not_followed(share, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    at = share.at("north", TO_COORDINATOR)
    at.rmdir()
    at.symlink_to(elsewhere)
    replies = share.engine.call(ASK, dict.fromkeys(SITES, b"x"), timeout_s=1.5)
    assert replies["north"] == SiteFailure("timeout")
    assert replies["south"] == b"south:x"
    assert [*elsewhere.iterdir()] == []
    at.unlink()
    at.mkdir()
    assert share.echoes(b"again")


# crashes


def test_what_a_crash_left_in_the_folder_is_replaced_and_sent_again(share):
    assert share.echoes(b"first")
    torn = share.at("north", TO_SITE) / ".sending-torn"
    torn.write_bytes(b"half of a file")
    share.engine = share.new_engine()
    assert share.echoes(b"second")
    assert not torn.exists()
    (share.path.parent / "numbers").unlink()  # as from an older copy of the coordinator's folder
    time.sleep(0.1)  # numbers go on by the clock
    share.engine = share.new_engine()
    assert share.echoes(b"third")


def test_a_reply_that_was_not_noted_as_sent_is_the_same_file_again(share):
    """A site killed between the reply and the note of its number answers once more."""
    assert share.echoes(b"only")
    (reply,) = share.at("north", TO_COORDINATOR).iterdir()
    before = reply.name, reply.read_bytes()
    share.stop("north")
    (share.path.parent / "numbers-north").write_text("0\n")
    share.start("north")
    wait_until(lambda: share.asked["north"] == [b"only", b"only"])
    wait_until(lambda: (share.path.parent / "numbers-north").read_text() != "0\n")
    (reply,) = share.at("north", TO_COORDINATOR).iterdir()
    assert (reply.name, reply.read_bytes()) == before
    assert share.echoes(b"next")


def test_a_coordinator_back_while_a_site_computes_gets_its_answer(share):
    share.stop("north")
    assert share.engine.call(ASK, {"north": b"x"}, timeout_s=0.3) == {
        "north": SiteFailure("timeout")
    }
    share.engine = share.new_engine()
    share.start("north")
    assert share.engine.call(ASK, {"north": b"x"}, timeout_s=TIMEOUT_S) == {"north": b"north:x"}
    assert set(share.asked["north"]) == {b"x"}


def test_two_coordinators_do_not_use_one_folder_at_once(tmp_path):
    made = CoordinatorFolder.create(
        tmp_path / "coordinator", study="study", engine="files", files=str(tmp_path)
    )
    with (
        files_engine(made.path, made.share, made.study()),
        pytest.raises(SiteNotReadyError, match="another process works"),
        files_engine(made.path, made.share, made.study()),
    ):
        pass
