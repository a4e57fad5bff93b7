"""A shared folder, three sites that echo what they are asked, and an engine."""

import hashlib

from waiting import wait_until

from cipherdag.privacy.keys.pairkeys import PairKey
from cipherdag.protocol.engines.files import FilesEngine, FilesSite
from cipherdag.protocol.engines.folder import TO_COORDINATOR, TO_SITE

SITES = ("north", "south", "west")
ASK = "invite"
TIMEOUT_S = 60.0
SECRET = "the cell in row 7 is 42.125"


class Share:
    """Three sites that echo, each by a thread of this process, and an engine."""

    def __init__(self, path, up, names=SITES):
        self.keys = {name: PairKey(hashlib.sha256(name.encode()).digest()) for name in names}
        self.path, self._up = path / "share", up
        self.noticed = {name: [] for name in names}
        self.asked = {name: [] for name in names}
        self.sites = {}
        for name in names:
            for direction in (TO_SITE, TO_COORDINATOR):
                self.at(name, direction).mkdir(parents=True)
            self.start(name)
        self.engine = self.new_engine()

    def at(self, name, direction):
        return self.path / name / direction

    def new_engine(self):
        numbers = self.path.parent / "numbers"
        return FilesEngine(self.path, self.keys, study="study", numbers=numbers)

    def start(self, name, *, stale_s=0.3):
        def handle(_operation, message):
            self.asked[name].append(message)
            if message == b"raise":
                raise RuntimeError(SECRET)
            return name.encode() + b":" + message

        site = FilesSite(
            self.path / name,
            handle,
            key=self.keys[name],
            study="study",
            site=name,
            operations=frozenset({ASK}),
            numbers=self.path.parent / f"numbers-{name}",
            record=self.noticed[name].append,
            stale_s=stale_s,
        )
        self.sites[name] = self._up.enter_context(site)

    def stop(self, name):
        self.sites[name].__exit__()

    def refused(self, name):
        return {notice.what for notice in self.noticed[name] if notice.refused}

    def has_sent(self, name):
        """Whether a site has ended its last reply, and taken away what lay beside it."""
        numbers = self.path.parent / f"numbers-{name}"
        asked = (self.path.parent / "numbers").read_text()
        return numbers.exists() and numbers.read_text() == asked

    def echoes(self, message, timeout_s=TIMEOUT_S):
        replies = self.engine.call(ASK, dict.fromkeys(SITES, message), timeout_s=timeout_s)
        wait_until(lambda: all(map(self.has_sent, SITES)))
        return replies == {name: name.encode() + b":" + message for name in SITES}
