"""Both ends of the PySyft engine agree on these names, limits and frames.

A call is the coordinator's signature, an operation and a message; a reply, a status and a message.
PySyft decodes neither: its decoder calls any function that the bytes name, so whoever reaches it
runs code (`deserialize_generic_alias`).

The Datasite (numpy 1.24) and the site's own process (cipherdag's own environment) are neighbours on
one machine. They speak over a Unix-domain socket in a private folder: a request is two lengths,
an operation and a message; a reply is a status, a length and a message.
"""

from __future__ import annotations

import hashlib
import socket
import struct
from typing import Final

from cipherdag.errors import MalformedMessageError
from cipherdag.privacy.wire import MAX_MESSAGE_BYTES, MAX_OPERATION_BYTES

SYFT_VERSION: Final = "0.9.5"
ENDPOINT: Final = "cipherdag.message"

SYFT_MESSAGE_BYTES: Final = MAX_MESSAGE_BYTES // 2
"""Less than other engines carry: PySyft keeps about ten copies of it (docs/engines/pysyft.md)."""
ENVELOPE_BYTES: Final = 1024
"""Room for a signature, lengths, an operation's name or a status beside a message."""
CALL_DOMAIN: Final = b"cipherdag datasite call"

ANSWERED: Final = 0
REFUSED: Final = 1
UNSIGNED: Final = "unsigned"
"""The Datasite says by it that it refused a request which the coordinator had not signed."""

_CALL = struct.Struct(">64sH")
_REQUEST = struct.Struct(">HQ")
_REPLY = struct.Struct(">BQ")


def call_parts(server: str, site: str, operation: str, message: bytes) -> tuple[bytes, ...]:
    """The parts of a call that the coordinator signs, under `CALL_DOMAIN`.

    Args:
        server: The Datasite's identifier, another one after each start.
        site: Whose it is: another site may claim the identifier and pass on what it then gets.
        operation: What the message is sent for.
        message: The message.
    """
    digest = hashlib.sha256(message).digest()
    return server.encode(), site.encode(), operation.encode(), digest


def write_call(signature: bytes, operation: str, message: bytes) -> bytes:
    """A call as it travels: a signature of `call_parts`, an operation and a message."""
    name = operation.encode()
    return _CALL.pack(signature, len(name)) + name + message


def read_call(body: bytes) -> tuple[bytes, str, bytes]:
    """Signature, operation and message of a call, whoever sent it.

    Raises:
        MalformedMessageError: It is cut short, or the name is too long or not text.
    """
    if len(body) < _CALL.size:
        raise MalformedMessageError("a call ended early")
    signature, length = _CALL.unpack_from(body)
    end = _CALL.size + length
    if length > MAX_OPERATION_BYTES or len(body) < end:
        raise MalformedMessageError("a call ended early, or its operation is too long")
    try:
        return signature, body[_CALL.size : end].decode(), body[end:]
    except UnicodeDecodeError:
        raise MalformedMessageError("the operation's name is not text") from None


def send_request(connection: socket.socket, operation: str, message: bytes) -> None:
    """Send an operation of at most 64 bytes and a message to the site's own process."""
    name = operation.encode()
    connection.sendall(_REQUEST.pack(len(name), len(message)) + name)
    if message:  # the other side may have answered and left if nothing is missing
        connection.sendall(message)


def receive_request(connection: socket.socket) -> tuple[str, bytes]:
    """Receive an operation and its message.

    Raises:
        MalformedMessageError: If a length is over its limit, the name is not text, or bytes lack.
    """
    name_length, length = _REQUEST.unpack(_exactly(connection, _REQUEST.size))
    if name_length > MAX_OPERATION_BYTES or length > SYFT_MESSAGE_BYTES:
        raise MalformedMessageError("a frame is longer than this site takes")
    try:
        operation = _exactly(connection, name_length).decode()
    except UnicodeDecodeError:
        raise MalformedMessageError("the operation's name is not text") from None
    return operation, _exactly(connection, length)


def send_reply(connection: socket.socket, status: int, message: bytes) -> None:
    """Send ``ANSWERED`` with a message, or ``REFUSED`` with none."""
    connection.sendall(_REPLY.pack(status, len(message)))
    if message:
        connection.sendall(message)


def receive_reply(connection: socket.socket) -> tuple[int, bytes]:
    """Receive a status and a message.

    Raises:
        MalformedMessageError: If the length is over its limit or bytes lack.
    """
    status, length = _REPLY.unpack(_exactly(connection, _REPLY.size))
    if length > SYFT_MESSAGE_BYTES:
        raise MalformedMessageError("a frame is longer than this site sends")
    return status, _exactly(connection, length)


def _exactly(connection: socket.socket, length: int) -> bytes:
    received = bytearray(length)
    view = memoryview(received)
    at = 0
    while at < length:
        count = connection.recv_into(view[at:])
        if count == 0:
            raise MalformedMessageError("a frame ended early")
        at += count
    return bytes(received)
