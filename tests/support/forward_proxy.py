"""A forward proxy as hospitals have it: CONNECT and nothing else, on the loopback interface."""

from __future__ import annotations

import contextlib
import socket
import threading

ENOUGH = 65536


class ForwardProxy:
    """Hands connections on by CONNECT until the context ends.

    Args:
        allowed: Targets such as ``localhost:443`` that it lets through; every one by default.
        idle_s: After so many seconds without a byte it cuts a connection; never by default.
        life_s: After so many seconds it cuts a connection whatever goes through; never by default.

    Attributes:
        asked: The targets that were asked for, in order.
        seen: All that went through, both ways.
    """

    def __init__(self, allowed=None, *, idle_s=None, life_s=None):
        self.allowed = allowed
        self.idle_s = idle_s
        self.life_s = life_s
        self.asked = []
        self.seen = bytearray()

    def __enter__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

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
            with socket.create_connection((host, int(port))) as there:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                for end in (client, there):
                    end.settimeout(self.idle_s)
                if self.life_s is not None:
                    threading.Timer(self.life_s, self._cut, (client, there)).start()
                back = threading.Thread(target=self._pump, args=(there, client), daemon=True)
                back.start()
                self._pump(client, there)
                back.join(timeout=60)

    def _cut(self, *ends):
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pump(self, source, target):
        with contextlib.suppress(OSError):
            while part := source.recv(ENOUGH):
                self.seen += part
                target.sendall(part)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
