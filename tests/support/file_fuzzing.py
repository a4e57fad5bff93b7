"""Hostile files for everything that reads one: samples of the corpus, mutated, and pure noise.

``tests/support/corpus`` holds for every reader a folder of files: valid ones, and hostile ones that
once got past it.
"""

import random
import shutil
import time
from pathlib import Path

from fuzzing import mutate

from cipherdag.deployment.certificates import certificates_of
from cipherdag.deployment.engine_checks import EngineRecord
from cipherdag.errors import CipherdagError
from cipherdag.graphs.edges import edges_from_csv
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.privacy import wire
from cipherdag.privacy.wire import decode
from cipherdag.protocol.engines import channel
from cipherdag.protocol.journal import read_transcript
from cipherdag.protocol.messages import read_envelope
from cipherdag.protocol.plan import Plan
from cipherdag.results.run import Run
from cipherdag.sites.policy.policy import Policy
from cipherdag.sites.record.ledger import ledger_lines, verify_ledger
from cipherdag.sites.record.opened_sums import OpenedSums
from cipherdag.sites.study.site_folder import SiteSettings
from cipherdag.sites.study.study import Approval, Request, SignedStudy, check_request, check_study
from cipherdag.sites.study.study_files import read_file
from cipherdag.sites.table.file_description import DescribedFile
from cipherdag.sites.table.reading import open_table
from cipherdag.sites.table.schema import Schema

CORPUS = Path(__file__).parent / "corpus"


def text(path):
    return path.read_bytes().decode("utf-8", "replace")


def table(path):
    with open_table(path) as opened:
        for _ in opened.chunks:
            pass


def plan(path):
    found = Plan.read(path)
    found.check(found.session)


READERS = {
    "approval": lambda path: check_study(read_file(path, Approval).signed),
    "call": lambda path: wire.decode(path.read_bytes(), channel.Call | channel.Notice),
    "certificates": lambda path: certificates_of(path.read_bytes(), "north"),
    "description": DescribedFile.load,
    "edges": lambda path: edges_from_csv(text(path), nodes=("a", "b", "c")),
    "engine": EngineRecord.load,
    "envelope": lambda path: read_envelope(path.read_bytes()),
    "knowledge": lambda path: Knowledge.loads(text(path)),
    "ledger": lambda path: verify_ledger(ledger_lines(text(path))),
    "plan": plan,
    "plan-message": lambda path: decode(path.read_bytes(), Plan),
    "policy": Policy.load,
    "request": lambda path: check_request(read_file(path, Request)),
    "result": lambda path: Run.load(path.parent),
    "schema": Schema.load,
    "site": SiteSettings.load,
    "study": lambda path: check_study(read_file(path, SignedStudy)),
    "sums": lambda path: OpenedSums(b"", path),
    "table": table,
    "transcript": read_transcript,
}
"""What is read, by the name of its folder in the corpus."""


def samples(reader):
    """The corpus of a reader."""
    return sorted(path for path in (CORPUS / reader).iterdir() if path.is_file())


def fuzz(reader, folder, *, seed, inputs=None, seconds=None):
    """Feed hostile files to a reader; anything but a named error escapes.

    Args:
        reader: One of `READERS`.
        folder: Where the hostile files are written; the one that escapes stays there.
        seed: Seed of the mutations.
        inputs: How many files.
        seconds: How long, in place of a number.

    Returns:
        How many were read, and how many of them refused.
    """
    source, corpus, refused, number = random.Random(seed), samples(reader), 0, 0
    contents = [path.read_bytes() for path in corpus]
    until = None if seconds is None else time.monotonic() + seconds
    while number < inputs if until is None else time.monotonic() < until:
        # first the corpus as it is
        chosen = number if number < len(corpus) else source.randrange(len(corpus))
        content = contents[chosen]
        if number >= len(corpus):
            for _ in range(source.choice((1, 1, 2, 5))):
                content = mutate(content, source)
        path = folder / corpus[chosen].name
        path.write_bytes(content)
        number += 1
        try:
            READERS[reader](path)
        except CipherdagError:
            refused += 1
    return number, refused


def keep(reader, path):
    """Put a hostile file into the corpus, under a name that is free."""
    free = next(n for n in range(1000) if not list((CORPUS / reader).glob(f"hostile-{n}.*")))
    shutil.copy(path, CORPUS / reader / f"hostile-{free}{path.suffix}")
