"""What every test costs in processor seconds, and which ones `make test` leaves to `make test-all`.

`pytest --record-durations` writes `tests/durations.json`: seconds of this process and of children
it waited for, and which tests start processes. A slow or busy machine takes more seconds for the
same test, so they are divided by what a loop of additions takes there and then. A fixture of a
module or session is paid in equal parts by the tests that ask for it. Markers are set from that
file when tests are collected: `slow`, `process`, and `law` where the fast run takes fewer examples
than the test asks for. Of a parameter called `seed` the fast run takes the first few.
A test that nobody measured counts as fast.
"""

import importlib.metadata
import json
import os
import random
import resource
import sys
import time
from collections import Counter, defaultdict, deque
from functools import cache
from pathlib import Path
from statistics import median

import pytest
from hypothesis import settings

# workers share the processors: threads that wait for each other there take many times as long
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tests" / "durations.json"
BOUND_S = 0.25
WRITTEN_FROM_S = 0.1
FAST_EXAMPLES, FAST_SEEDS = 15, 6
ADDED, ADDED_S = range(50_000), 0.0011
"""The loop of additions, and its seconds on the machine of the bounds."""
SETTINGS = "_hypothesis_internal_use_settings"
COLLECTED = pytest.StashKey[list]()
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"}

# each set-up of a site reads the metadata of packages, which takes longer than the rest of it
importlib.metadata.version = cache(importlib.metadata.version)
read_points = importlib.metadata.entry_points
points = cache(lambda _path, **group: read_points(**group))
importlib.metadata.entry_points = lambda **group: points(tuple(sys.path), **group)

# a gate with the same examples every time never stops a change for a fault of another one
for profile in ("fast", "full"):
    settings.register_profile(profile, deadline=None, derandomize=True, database=None)
settings.register_profile("new examples", deadline=None, print_blob=True)
settings.load_profile("full")


def pytest_addoption(parser):
    parser.addoption(
        "--record-durations", action="store_true", help="write seconds per test to durations.json"
    )
    parser.addoption(
        "--shuffle", metavar="SEED", help="files, and tests of a file, in random order"
    )


def pytest_configure(config):
    for line in (
        f"slow: takes more than {BOUND_S} processor seconds",
        "process: starts a process",
        "law: the fast run takes fewer examples",
    ):
        config.addinivalue_line("markers", line)
    if config.getoption("record_durations"):
        config.pluginmanager.register(Recorder(config), "recorder of durations")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(session, items):
    session.stash[COLLECTED] = [*items]
    if seed := session.config.getoption("shuffle"):
        source = random.Random(seed)
        place = defaultdict(source.random)
        items.sort(key=lambda item: (place[item.path], source.random()))
    known = of_file()
    fast, full = settings.get_current_profile_name() == "fast", {}
    for item in items:
        part, law = 1.0, getattr(item, "obj", None)
        if hasattr(law, SETTINGS):
            asked = full.setdefault(law, getattr(law, SETTINGS))  # cases share one function
            if asked.max_examples > FAST_EXAMPLES:
                item.add_marker("law")
                part = FAST_EXAMPLES / asked.max_examples
                if fast:
                    setattr(law, SETTINGS, settings(asked, max_examples=FAST_EXAMPLES))
        if hasattr(item, "callspec") and item.callspec.indices.get("seed", 0) >= FAST_SEEDS:
            item.add_marker("slow")
        file, _, test = item.nodeid.partition("::")
        if known["seconds"].get(file, {}).get(test, 0.0) * part > BOUND_S:
            item.add_marker("slow")
        if test in known["processes"].get(file, ()):
            item.add_marker("process")


def of_file():
    """What `durations.json` says, by file and test."""
    if FILE.exists():
        return json.loads(FILE.read_text("utf-8"))
    return {"seconds": {}, "processes": {}}


def fast(item):
    """Whether `make test` runs it."""
    return not any(item.iter_markers("slow")) and not any(item.iter_markers("process"))


def seconds():
    """Processor seconds of this process, all its threads, and the children it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def pace():
    """How many times as long as the machine of the bounds this one takes at this moment."""
    before = time.process_time()
    for _ in ADDED:
        before += 0.0
    return (time.process_time() - before) / ADDED_S


class Recorder:
    """Measures tests where they run, and writes the file where reports come together."""

    def __init__(self, config):
        self.config, self.started, self.shared = config, 0, []
        self.tests, self.fixtures = {}, defaultdict(list)
        self.paces = deque(maxlen=25)
        if not hasattr(config, "workerinput"):
            self.whole = not (config.option.markexpr or config.option.keyword)
        sys.addaudithook(self._count)

    def _count(self, event, _):
        self.started += event in STARTS

    def paced(self, spent):
        return spent / median(self.paces)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.paces.append(pace())
        before, started, self.shared = seconds(), self.started, []
        item.user_properties.append(("cost", cost := {}))
        self.finish = lambda: cost.update(
            own=self.paced(seconds() - before) - sum(spent for _, spent, _ in self.shared),
            processes=self.started - started,
            set_up=self.shared,
            uses=shared_by(item),
        )
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope == "function":
            return (yield)
        before, started, within = seconds(), self.started, len(self.shared)
        try:
            return (yield)
        finally:
            spent = self.paced(seconds() - before)
            spent -= sum(inner for _, inner, _ in self.shared[within:])
            index = request.param_index
            self.shared.append((key(fixturedef, index), spent, self.started - started))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call):
        if call.when == "teardown":
            self.finish()
        return (yield)

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown" and not hasattr(self.config, "workerinput"):
            cost = dict(report.user_properties)["cost"]
            self.tests[report.nodeid] = cost
            for name, spent, started in cost["set_up"]:
                self.fixtures[name].append((spent, started))

    def pytest_sessionfinish(self):
        if not hasattr(self.config, "workerinput"):
            FILE.write_text(written(self.tests, self.fixtures, self.whole), "utf-8")


def key(definition, index):
    return f"{definition.baseid}::{definition.argname}[{index}]"


def shared_by(item):
    """The fixtures that a test shares with others."""
    indices = item.callspec.indices if hasattr(item, "callspec") else {}
    found = [own[-1] for own in item._fixtureinfo.name2fixturedefs.values()]
    return [key(own, indices.get(own.argname, 0)) for own in found if own.scope != "function"]


def written(tests, fixtures, whole):
    """The file's text: what was measured now, in place of what was known of these tests."""
    users = Counter(name for cost in tests.values() for name in cost["uses"])
    known = of_file()
    ran = {name.partition("::")[0] for name in tests}
    for costs in known.values():
        for file in [*costs]:
            if (whole and file in ran) or not (ROOT / file).exists():
                del costs[file]
    listed = {file: set(own) for file, own in known["processes"].items()}
    for name, cost in tests.items():
        file, _, test = name.partition("::")
        parts = [(spent / users[own], n) for own in cost["uses"] for spent, n in fixtures[own]]
        spent = cost["own"] + sum(part for part, _ in parts)
        known["seconds"].setdefault(file, {}).pop(test, None)
        listed.setdefault(file, set()).discard(test)
        if spent >= WRITTEN_FROM_S:
            known["seconds"][file][test] = round(spent, 2)
        if cost["processes"] or any(started for _, started in parts):
            listed[file].add(test)
    known["processes"] = {file: sorted(own) for file, own in listed.items() if own}
    known["seconds"] = {file: own for file, own in known["seconds"].items() if own}
    return json.dumps(known, indent=1, sort_keys=True) + "\n"
