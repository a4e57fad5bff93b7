"""What lies between a site and its coordinator, on the loopback interface: a forward proxy.

It lets CONNECT through and nothing else, as hospitals have it. The line behind it may be bad: it
cuts connections, forgets them as a router does that maps addresses, or loses packets.
"""

import contextlib
import random
import socket
import sys
import threading
import time
from dataclasses import dataclass

ENOUGH = 65536
RETRANSMIT_S = 0.2
"""What TCP waits for at least before it sends a lost packet again, and twice as long each time."""
ELSEWHERE = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"


@dataclass(slots=True)
class Mapping:
    """A connection that is handed on: its two ends, its last byte, and whether it is forgotten."""

    ends: tuple[socket.socket, socket.socket]
    last: float
    forgotten: bool = False

    def cut(self):
        """End it so that both ends notice."""
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class ForwardProxy:
    """Hands connections on by CONNECT until the context ends.

    Args:
        allowed: Targets such as ``localhost:443`` that it lets through; every one by default.
        idle_s: After so many seconds without a byte it cuts a connection; never by default.
        life_s: After so many seconds it cuts a connection whatever goes through; never by default.
        forgets_s: After so many seconds without a byte it forgets a connection: both ends stay
            open, and whatever they send goes nowhere. So does a router that maps addresses.
        loss: The part of all packets that is lost, both ways; each is sent again by TCP.
        cut_after: After so many losses in a row it cuts the connection; never by default.
        seed: Of the losses.

    Attributes:
        asked: The targets that were asked for, in order.
        ports: The ports at which the other end saw the connections come from, in order.
        seen: All that arrived here, both ways.
        lost: How many packets were lost.
    """

    def __init__(
        self,
        allowed=None,
        *,
        idle_s=None,
        life_s=None,
        forgets_s=None,
        loss=0.0,
        cut_after=None,
        seed=0,
    ):
        self.allowed = allowed
        self.idle_s, self.life_s, self.forgets_s = idle_s, life_s, forgets_s
        self.loss, self.cut_after = loss, cut_after
        self.asked, self.ports, self.seen = [], [], bytearray()
        self.lost = 0
        self._random = random.Random(seed)
        self._mappings = []

    def __enter__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()

    def cut(self):
        """Cut every connection that is open."""
        for mapping in [*self._mappings]:
            mapping.cut()

    def forget(self, most=sys.maxsize):
        """Forget the connections that are open, of which the first ones at most."""
        for mapping in self._mappings[:most]:
            mapping.forgotten = True

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                part = client.recv(ENOUGH)
                if not part:
                    return
                head += part
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            self.asked.append(target)
            if method != "CONNECT" or (self.allowed is not None and target not in self.allowed):
                client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            host, _, port = target.rpartition(":")
            where = host, int(port)
            with socket.create_connection(where, source_address=(ELSEWHERE, 0)) as there:
                self.ports.append(there.getsockname()[1])
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self._hand_on(Mapping((client, there), time.monotonic()))

    def _hand_on(self, mapping):
        client, there = mapping.ends
        for end in mapping.ends:
            end.settimeout(self.idle_s)
        if self.life_s is not None:
            threading.Timer(self.life_s, mapping.cut).start()
        self._mappings.append(mapping)
        back = threading.Thread(target=self._pump, args=(mapping, there, client), daemon=True)
        back.start()
        self._pump(mapping, client, there)
        back.join()
        self._mappings.remove(mapping)

    def _pump(self, mapping, source, target):
        with contextlib.suppress(OSError):
            while part := source.recv(ENOUGH):
                self.seen += part
                if self._remembers(mapping) and self._arrives(mapping):
                    target.sendall(part)
        if self._remembers(mapping):
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)

    def _remembers(self, mapping):
        now = time.monotonic()
        if self.forgets_s is not None and now - mapping.last > self.forgets_s:
            mapping.forgotten = True
        mapping.last = now
        return not mapping.forgotten

    def _arrives(self, mapping):
        """Wait as long as TCP takes to bring a packet over; False where the line is cut."""
        losses, wait = 0, RETRANSMIT_S
        while self._random.random() < self.loss:
            losses += 1
            self.lost += 1
            if losses == self.cut_after:
                mapping.cut()
                return False
            time.sleep(wait)
            wait *= 2.0
        return True
