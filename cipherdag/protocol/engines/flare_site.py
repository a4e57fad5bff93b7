"""The process at a site that talks to the network, under NVIDIA FLARE.

The site's own process starts it, or a second unit of the machine under another user does. It gets
one address over one local connection, gives up all files (`confinement`), and from then on passes
on calls of the coordinator, one at a time. It reads no job, no configuration and no command.

Leaks:
    One of four fixed words, or the reply of the site's own process. What goes wrong is said to that
    process alone, in fixed sentences.
"""

import contextlib
import os
import queue
import ssl
import sys
import threading
import time
from collections import Counter
from multiprocessing.connection import Client, Connection
from pathlib import Path

from cipherdag.errors import MalformedMessageError
from cipherdag.privacy.wire import MAX_MESSAGE_BYTES, decode, encode
from cipherdag.protocol.engines.channel import (
    FRAME_BYTES,
    TICKET_BYTES,
    UNKNOWN_OPERATION,
    Address,
    Call,
    Credentials,
    Notice,
    Outcome,
    Reply,
    Started,
)
from cipherdag.protocol.engines.confinement import confine
from cipherdag.protocol.engines.flare_link import Again
from cipherdag.protocol.forward_proxy import proxy_to

LOOK_S = 0.5
NOTICE_S = 1.0
CONNECTED = "connected to the coordinator"
LOST = "the connection to the coordinator is lost; connecting again"
AGAIN = "the connection is lost again and again: does a copy of this site's folder run elsewhere?"
NOT_ADMITTED = (
    "the coordinator's server closes each connection at once: was this site revoked, or is its "
    "clock wrong?"
)
MOST_CUT = 3  # connections in a row that the server closed before it said its name
NOT_A_CALL = "bytes that are no call"


class SiteEngine:
    """Passes calls of the coordinator on to the site's own process, and its replies back."""

    def __init__(self, address: Address, context: ssl.SSLContext, process: Connection) -> None:
        # imported by a process that is confined: numpy, which both need, starts threads
        from cipherdag.protocol.engines.flare_driver import Peers
        from cipherdag.protocol.engines.flare_link import Link
        from cipherdag.protocol.messages import OPERATIONS

        self._operations = OPERATIONS
        self._coordinator = address.host
        self._process = process
        self._calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
        # one is computed, and one waits: a coordinator that comes back asks again meanwhile
        self._free = threading.Semaphore(2)
        self._notices: Counter[tuple[str, bool]] = Counter()
        self._noting = threading.Lock()
        self._noted = 0.0
        self._cut = 0
        self._lost = Again()
        peers = Peers(
            admitted=lambda name: name == address.host,
            received=self._received,
            arrived=lambda _: self._arrived(),
            left=lambda _: self._note(AGAIN if self._lost.again() else LOST, refused=False),
            turned_away=self._turned_away,
            refused=lambda what: self._note(what, refused=True),
            expects=lambda _: True,  # a coordinator asks when it will
        )
        self._link = Link(address.site, peers)
        self._link.call(address.host, address.port, context)

    def run(self) -> None:
        """Pass on calls until the site's own process leaves, or the server admits it no more."""
        while True:
            try:
                call = self._calls.get(timeout=LOOK_S)
            except queue.Empty:
                call = None
            self._say_notices()
            if self._cut >= MOST_CUT and not self._notices:
                return
            if call is not None:
                self._pass_on(call)
            elif self._process.poll():
                return  # nothing is expected now, so the other end is closed

    def _arrived(self) -> None:
        self._cut = 0
        self._note(CONNECTED, refused=False)

    def _turned_away(self) -> None:
        self._cut += 1
        self._note(NOT_ADMITTED, refused=False)

    def _received(self, _: str, content: bytes) -> None:
        """Take a call from the network; never waits."""
        try:
            call = decode(content, Call)
        except MalformedMessageError:
            self._note(NOT_A_CALL, refused=True)
            return
        if call.operation not in self._operations or len(call.message) > MAX_MESSAGE_BYTES:
            self._note(UNKNOWN_OPERATION, refused=True)
            self._reply(call.ticket, "refused")
        elif not self._free.acquire(blocking=False):
            self._reply(call.ticket, "busy")
        else:
            self._calls.put(call)

    def _pass_on(self, call: Call) -> None:
        self._process.send_bytes(encode(call))
        reply = decode(self._process.recv_bytes(FRAME_BYTES), Reply)
        # before the reply leaves: who has it may ask again at once
        self._free.release()
        self._reply(call.ticket, reply.outcome, reply.reply)

    def _reply(self, ticket: bytes, outcome: Outcome, reply: bytes = b"") -> None:
        self._link.send(self._coordinator, encode(Reply(ticket[:TICKET_BYTES], outcome, reply)))

    def _note(self, what: str, *, refused: bool) -> None:
        with self._noting:
            self._notices[what, refused] += 1

    def _say_notices(self) -> None:
        """Tell the site's own process what happened, at most once a second."""
        if time.monotonic() - self._noted < NOTICE_S:
            return
        with self._noting:
            notices, self._notices = self._notices, Counter()
        for (what, refused), times in notices.items():
            self._process.send_bytes(encode(Notice(what, times, refused)))
        self._noted = time.monotonic()


def serve(process: Connection) -> None:
    """Get an address, give up all files, and pass on calls until the connection is closed."""
    address = decode(process.recv_bytes(FRAME_BYTES), Address)
    credentials = Credentials(address.root, address.certificate, address.key)
    context = credentials.context(server=False)
    proxy = proxy_to(address.host)
    port = address.port if proxy is None else proxy.port
    separation = confine((Path(path) for path in address.protected), ports=(port,))
    process.send_bytes(encode(Started(os.getpid(), separation)))
    if address.host:
        SiteEngine(address, context, process).run()


def connect(folder: Path) -> Connection:
    """The connection to the site's own process that waits in a folder; see `EngineDoor`."""
    token = bytes.fromhex((folder / "token").read_text("ascii").strip())
    return Client(str(folder / "door"), "AF_UNIX", token)


def main() -> None:
    """Serve over the connection with the number that is the only argument."""
    with contextlib.suppress(EOFError, OSError):  # the site's own process ended
        serve(Connection(int(sys.argv[1])))
    os._exit(0)  # FLARE's threads wait for nothing


if __name__ == "__main__":
    main()
