"""The faults of `faults.py`: each function brings one about once, and says how it ended.

Each gets a study, or what makes one, and a generator of random numbers. It gives ``end``, ``next``
and ``lost``, and what it drew; ``must`` where no other end is right.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from dataclasses import replace

from fault_studies import LEARN, ended, last_session, lost
from hospitals import SITES

from cipherdag.sites.session.serving import KeptSite

SAME = "same graph"
SLEEPING_TIMEOUT_S = 2.0


# faults of connections, in a run of a study over FLARE


def cut(study, rng):
    """The proxies of one site or of all cut what is open, up to three times."""
    names = list(SITES) if rng.random() < 0.3 else [str(rng.choice(SITES))]
    moments = sorted(rng.uniform(0.0, study.run_s, size=rng.integers(1, 4)))
    with at(moments, *(study.proxies[name].cut for name in names)) as over:
        return {"sites": names} | run_through(study, settled=over)


def lossy(study, rng):
    """A fifth of all packets is lost, both ways at every site; half the time with cuts."""
    harsh = bool(rng.random() < 0.5)
    for proxy in study.proxies.values():
        proxy.loss, proxy.cut_after = 0.2, 3 if harsh else None
        proxy.lost = 0
    met = run_through(study, timeout_s=60.0)
    packets = sum(proxy.lost for proxy in study.proxies.values())
    return met | {"cuts": harsh, "packets": packets} | ({} if harsh else {"must": SAME})


def asleep(study, rng):
    """One site's processes stop for some time; a call waits two seconds for its answer."""
    name, pause = str(rng.choice(SITES)), float(rng.uniform(0.2, 4.0))
    numbers = study.numbers(name)
    moment = rng.uniform(0.0, study.run_s)
    awake = threading.Event()

    def sleep():
        send(numbers, signal.SIGSTOP)
        time.sleep(pause)
        send(numbers, signal.SIGCONT)
        awake.set()

    with at([moment], sleep):
        met = run_through(study, timeout_s=SLEEPING_TIMEOUT_S, settled=awake.wait)
    return met | {"sites": [name], "pause": round(pause, 2)}


def forgotten(study, rng):
    """A mapping is forgotten in a run, or after a silence that is short or long."""
    (proxy,) = study.proxies.values()
    kind = str(rng.choice(["in a run", "soon", "late"]))
    if kind == "in a run":
        with at([rng.uniform(0.0, study.run_s)], lambda: proxy.forget(rng.integers(1, 4))) as over:

            def settled():
                over()
                time.sleep(study.silence_s + 1.0)  # until the last of them is noticed

            return {"kind": kind} | run_through(study, settled=settled)
    after = rng.uniform(0.05, 0.5) if kind == "soon" else rng.uniform(1.8, 2.8)
    proxy.forgets_s = float(after)
    time.sleep(rng.uniform(0.0, 4.0))
    # heartbeats come sooner than a mapping is forgotten late
    return {"kind": kind} | run_through(study) | ({"must": SAME} if kind == "late" else {})


def renewed(study, rng):
    """All certificates are renewed; a site starts with its new one, at times the server, too."""
    name, in_a_run = str(rng.choice(SITES)), bool(rng.random() < 0.5)
    study.hospitals.command("coordinator", "renew", "--dir", study.hospitals.coordinator)

    def start_again():
        study.stop(name)
        study.hospitals.activate(name, study.code)
        study.start(name)
        if rng.random() < 0.5:
            study.stop("coordinator")
            study.start("coordinator")
        study.wait_for_sites()

    if not in_a_run:
        start_again()
        return {"sites": [name], "in a run": False, "must": SAME} | run_through(study)
    stopped = threading.Event()

    def stop():
        study.stop(name)
        stopped.set()

    def settled():
        stopped.wait()
        start_again()

    with at([rng.uniform(0.0, study.run_s)], stop):
        return {"sites": [name], "in a run": True} | run_through(study, settled=settled)


def run_through(study, *, timeout_s=None, settled=lambda: None):
    """A run during the fault, its continuation where it was cut short, and the next run."""
    faulty = replace(study.federation, timeout_s=timeout_s or study.timeout_s)
    federation, begun = study.federation, []
    met = {"end": ended(lambda: faulty.run(LEARN, begun=begun.append), study.expected)}
    settled()
    study.settle()
    if met["end"] != SAME and begun:
        met["resumed"] = ended(lambda: federation.resume(begun[0]), study.expected)
    begun_s = time.monotonic()
    met["next"] = ended(lambda: federation.run(LEARN), study.expected)
    study.run_s = time.monotonic() - begun_s
    return met | {"lost": lost(study.work, study.earlier, study.expected)}


@contextlib.contextmanager
def at(moments, *works):
    """Do something at some moments, in seconds from now; gives what waits until it is done."""

    def work():
        begun = time.monotonic()
        for moment in moments:
            time.sleep(max(0.0, begun + moment - time.monotonic()))
            for each in works:
                each()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield thread.join
    finally:
        thread.join()


def send(numbers, what):
    """Send a signal to some processes."""
    for number in numbers:
        os.kill(number, what)


# faults of folders


def restored(make, rng):
    """A site's folder comes back from before the last runs, between two runs or in one."""
    study, name = make(), str(rng.choice(SITES))
    folder, backup, newest = (study.work / each for each in (name, "backup", "newest"))
    session = runs(study, rng.integers(1, 3))
    shutil.copytree(folder, backup)
    runs(study, rng.integers(1, 3))

    def restore():
        shutil.copytree(folder, newest)
        put(study, name, backup)

    met = {"sites": [name], "must": "LostRecordsError"}
    if rng.random() < 0.5:
        study.before = once(rng.integers(1, 25), restore)
        met["during"] = run(study)
        study.before = lambda: None
    if not newest.exists():
        restore()
    met["end"] = run(study)
    put(study, name, newest)
    return met | finished(study, session)


def cloned(make, rng):
    """A copy of a site's folder takes part in runs, or both displace each other in one."""
    study, name = make(), str(rng.choice(SITES))
    clone = study.work / "clone"
    session = runs(study, rng.integers(1, 3))
    shutil.copytree(study.work / name, clone)
    original, copy = study.sites[name], KeptSite(clone, lock_wait_s=0.0)
    met = {"sites": [name]}
    if rng.random() < 0.5:
        study.sites[name] = copy
        runs(study, rng.integers(1, 3))
        study.sites[name] = original
        met |= {"end": run(study), "must": "LostRecordsError"}
        # the newest folder is put back, and nothing else runs
        copy.close()
        put(study, name, clone)
        return met | finished(study, session)

    def displaced():
        if rng.random() < 0.2:
            study.sites[name] = copy if study.sites[name] is original else original

    study.before = displaced
    met["end"] = run(study)
    study.before = lambda: None
    study.sites[name] = original
    copy.close()
    met["then"] = run(study)
    if met["then"] == "LostRecordsError":  # the copy's folder is the newer one
        put(study, name, clone)
    return met | finished(study, session)


def put(study, name, source):
    """Put another folder in the place of a site's, which stops for that time."""
    study.stop(name)
    shutil.rmtree(study.work / name)
    shutil.copytree(source, study.work / name)
    study.start(name)


def runs(study, count):
    """Some runs without a fault; the session of the first."""
    coordinator = study.work / "coordinator"
    study.federation.run(LEARN)
    session = last_session(coordinator)
    for _ in range(count - 1):
        study.federation.run(LEARN)
    return session


def run(study):
    """How one run ends."""
    return ended(lambda: study.federation.run(LEARN), study.expected)


def finished(study, session):
    """The next run, and what was lost."""
    met = {"next": run(study), "lost": lost(study.work, session, study.expected)}
    study.stop_all()
    return met


def once(number, work):
    """Do something at one of many calls."""
    calls = iter(range(1, number + 1))

    def called():
        if next(calls, None) == number:
            work()

    return called
