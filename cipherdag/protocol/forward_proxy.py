"""The forward proxy that leads out of a site's network, where its environment names one.

Which variables count, and in which order, is as gRPC has it. A proxy hands on what it cannot
read: TLS goes from end to end.

Leaks:
    The proxy sees the coordinator's host name and port, and how much is sent when.
"""

import base64
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

NAMED_IN = ("grpc_proxy", "https_proxy", "http_proxy")
EXCEPT_IN = ("no_grpc_proxy", "no_proxy")
DEFAULT_PORT = 80
MAX_HEAD_BYTES = 64 * 1024
_CONNECTED = "200"


class ProxyRefusedError(OSError):
    """The proxy hands nothing on; ``answer`` is its first line without the protocol, or empty."""

    def __init__(self, answer: str) -> None:
        super().__init__(answer)
        self.answer = answer


@dataclass(frozen=True, slots=True)
class ForwardProxy:
    """A proxy's address, and the environment variable that names it.

    ``authorization`` is secret, stands in no repr, and is empty where the address has no user.
    """

    host: str
    port: int
    variable: str
    authorization: str = ""

    def __repr__(self) -> str:
        return f"ForwardProxy({self.host}:{self.port}, of {self.variable})"

    def connect(self, host: str, port: int, *, timeout_s: float) -> socket.socket:
        """A connection behind the proxy; ProxyRefusedError if it refuses, OSError if it is away."""
        asked = f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n"
        if self.authorization:
            asked += f"Proxy-Authorization: {self.authorization}\r\n"
        with ExitStack() as closing:
            tunnel = socket.create_connection((self.host, self.port), timeout=timeout_s)
            closing.enter_context(tunnel)
            tunnel.sendall(f"{asked}\r\n".encode("ascii"))
            _, _, answer = _head(tunnel).split("\r\n", 1)[0].partition(" ")
            if answer.partition(" ")[0] != _CONNECTED:
                raise ProxyRefusedError("".join(filter(str.isprintable, answer)))
            closing.pop_all()
        return tunnel


def proxy_to(host: str, environment: Mapping[str, str] = os.environ) -> ForwardProxy | None:
    """The proxy that leads to a host by these environment variables, or none."""
    excepted = next((environment[name] for name in EXCEPT_IN if environment.get(name)), "")
    for ending in filter(None, (name.strip().lower() for name in excepted.split(","))):
        if host.lower().endswith(ending):
            return None
    variable = next((name for name in NAMED_IN if environment.get(name)), None)
    if variable is None:
        return None
    parts = urlsplit(environment[variable])
    if parts.scheme != "http" or not parts.hostname:
        return None
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    sent = f"Basic {base64.b64encode(user.encode()).decode()}" if parts.username else ""
    return ForwardProxy(parts.hostname, parts.port or DEFAULT_PORT, variable, sent)


def _head(tunnel: socket.socket) -> str:
    """The head of the proxy's answer: byte by byte, since what follows is the server's."""
    head = bytearray()
    while not head.endswith(b"\r\n\r\n"):
        part = tunnel.recv(1)
        if not part or len(head) > MAX_HEAD_BYTES:
            raise ProxyRefusedError("")
        head += part
    return head.decode("latin-1")
