"""The messages of the one channel: between coordinator and site, and within a site's machine.

A message is strict msgpack of one of these structs. The receiver limits its length before it
decodes it, and a message that it does not know ends the connection. `Credentials` are what either
end of the network connection shows the other; a key stays in its process.

Leaks:
    Who carries the messages sees the operation's name and the length of the message.
"""

import contextlib
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from cipherdag.privacy.wire import MAX_MESSAGE_BYTES, Body
from cipherdag.protocol.engines.confinement import Confinement

TICKET_BYTES = 16
FRAME_BYTES = MAX_MESSAGE_BYTES + 64 * 1024  # longest frame: a message, and what stands around it

UNKNOWN_OPERATION = "an operation that this site does not know"

Outcome = Literal["reply", "refused", "failed", "busy"]


class Call(Body, frozen=True, tag="call"):
    """The coordinator asks a site, or a site's engine asks the site's own process."""

    ticket: bytes
    operation: str
    message: bytes


class Reply(Body, frozen=True, tag="reply"):
    """The outcome of the call with this ticket; ``reply`` is empty unless there is one."""

    ticket: bytes
    outcome: Outcome
    reply: bytes = b""


class Address(Body, frozen=True, tag="address"):
    """All that an engine's process needs to know of its site.

    ``host`` is the coordinator's, which its certificate must be for. ``root`` is the certificate of
    the study's authority, ``certificate`` and ``key`` are the site's, PEM. The process must not be
    able to open the paths ``protected``.
    """

    site: str
    host: str
    port: int
    root: bytes
    certificate: bytes
    key: bytes
    protected: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Address({self.site} to {self.host}:{self.port})"


class Started(Body, frozen=True, tag="started"):
    """An engine's process is ready to connect, and says what it cannot reach any more."""

    process: int
    separation: Confinement


class Notice(Body, frozen=True, tag="notice"):
    """Something that a person at the site should know of, so many times since the last notice.

    ``what`` is a fixed sentence, never text that came from elsewhere; ``refused`` says whether
    somebody asked for what this site does not do.
    """

    what: str
    times: int
    refused: bool


@dataclass(frozen=True, slots=True)
class Credentials:
    """A study's root certificate, and one end's certificate and key, as PEM; repr has no key."""

    root: bytes
    certificate: bytes
    key: bytes = field(repr=False)

    def context(self, *, server: bool) -> ssl.SSLContext:
        """TLS 1.3 with both ends' certificates, each checked for its use; or an ssl.SSLError."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.verify_mode = ssl.CERT_REQUIRED
        made.verify_flags |= ssl.VERIFY_X509_STRICT
        made.load_verify_locations(cadata=self.root.decode("ascii"))
        # OpenSSL reads keys from files only; these two are pipes, so no key lies on a disk
        with _piped(self.certificate) as certificate, _piped(self.key) as key:
            made.load_cert_chain(certificate, key)
        return made


@contextlib.contextmanager
def _piped(content: bytes) -> Iterator[str]:
    reading, writing = os.pipe()
    try:
        os.write(writing, content)  # a few kilobytes, which a pipe holds
        os.close(writing)
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
