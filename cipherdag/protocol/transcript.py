"""What the coordinator received, in digests, so that each site's ledger can be held against it.

Leaks:
    Nothing beyond what the coordinator saw: who answered what, how long, and SHA-256 digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cipherdag.errors import MalformedMessageError, OutputError
from cipherdag.protocol.durable_lines import append
from cipherdag.protocol.engines.engine import Engine, SiteFailure
from cipherdag.protocol.messages import read_envelope

TRANSCRIPT_FILE = "transcript.jsonl"


class Received(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reply: from whom, about what, and the SHA-256 that the site's ledger records of it.

    ``content`` is that of the whole reply, as ``envelope`` is; in an earlier revision it was that
    of what the reply held.
    """

    site: str
    session: str
    topic: str
    bytes: int
    envelope: str
    content: str = ""


class TranscribingEngine:
    """An engine that writes down what comes back; a context manager is not needed.

    Args:
        engine: Carries the messages.
        path: File to append to, one JSON object per reply.
    """

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """See `Engine.call`."""
        replies = self._engine.call(operation, messages, timeout_s=timeout_s)
        lines = [
            msgspec.json.encode(received(site, reply)) + b"\n"
            for site, reply in replies.items()
            if isinstance(reply, bytes)
        ]
        append(self._path, b"".join(lines))
        return replies


def received(site: str, reply: bytes) -> Received:
    """The record of one reply; one that is not a message is recorded as such."""
    digest = hashlib.sha256(reply).hexdigest()
    try:
        envelope = read_envelope(reply)
    except MalformedMessageError:
        return Received(site, "", "garbage", len(reply), digest)
    return Received(site, envelope.session.hex(), envelope.topic, len(reply), digest, digest)


def read_transcript(path: Path) -> list[Received]:
    """The replies of a run.

    Raises:
        OutputError: The file cannot be read.
    """
    try:
        lines = path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Received) for line in lines]
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise OutputError(f"{path} is not the transcript of a run") from error
