"""Peers that speak FLARE's frames by hand: a hostile coordinator, and a member with a certificate.

What they send includes FLARE's own commands, as FLARE encodes them: deployments of a job with code,
starts, aborts, shell commands, stops of a cell and changes of its root.
"""

import contextlib
import io
import json
import pickle
import socket
import ssl
import uuid
import zipfile

import msgpack
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey, MessageType
from nvflare.fuel.f3.cellnet.utils import encode_payload, new_cell_message
from nvflare.fuel.f3.sfm.constants import HandshakeKeys, Types
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix
from nvflare.private.admin_defs import Message

from cipherdag.privacy.wire import encode
from cipherdag.protocol.engines.channel import Call, Reply
from cipherdag.protocol.engines.flare_link import CHANNEL

CELL_NET = 2
COMMANDS = (
    "train.check_status",
    "train.deploy",
    "train.start_job",
    "train.abort",
    "train.delete_run",
    "scheduler.check_resource",
    "sys.shell",
    "sys.restart",
    "report_resources",
)
CELL_COMMANDS = ("stop", "stop_cell", "change_root", "bulk", "bye", "process_info", "config_vars")


def frame(kind, payload, *, headers=None, app_id=0, length=None):
    """A frame of FLARE's transport."""
    head = msgpack.packb(headers) if headers is not None else b""
    whole = PREFIX_LEN + len(head) + len(payload)
    made = bytearray(PREFIX_LEN)
    Prefix(whole if length is None else length, len(head), kind, 0, 0, app_id, 1, 1).to_buffer(
        made, 0
    )
    return bytes(made) + head + payload


def hello(name, kind=Types.HELLO):
    return frame(kind, msgpack.packb({HandshakeKeys.ENDPOINT_NAME: name}))


def job_with_code(marker):
    """A job's archive whose code writes a marker wherever Python starts with it on the path."""
    code = f"open({str(marker)!r}, 'a').write('ran')\n"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr(
            "meta.json", json.dumps({"name": "cipherdag", "deploy_map": {"site": ["@ALL"]}})
        )
        for name in ("sitecustomize.py", "usercustomize.py", "x.pth", "../../sitecustomize.py"):
            made.writestr(f"site/custom/{name}", code)
        link = zipfile.ZipInfo("site/config/link")
        link.external_attr = 0o120777 << 16
        made.writestr(link, "/etc/passwd")
    return archive.getvalue()


def flare_command(topic, body, *, target, channel=CellChannel.CLIENT_MAIN):
    """A command of FLARE's, encoded as its own cells do."""
    message = new_cell_message({}, Message(topic, body))
    encode_payload(message)
    headers = {
        **message.headers,
        MessageHeaderKey.CHANNEL: channel,
        MessageHeaderKey.TOPIC: topic,
        MessageHeaderKey.ORIGIN: "server",
        MessageHeaderKey.DESTINATION: target,
        MessageHeaderKey.MSG_TYPE: MessageType.REQ,
        MessageHeaderKey.REQ_ID: str(uuid.uuid4()),
        MessageHeaderKey.ROUTE: [["server", 0.0]],
    }
    payload = message.payload
    content = payload if isinstance(payload, bytes) else b"".join(map(bytes, payload))
    return frame(Types.DATA, content, headers=headers, app_id=CELL_NET)


class _Exploit:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return (open, (self.marker, "w"))


def broken_frames():
    """Frames that FLARE drops or that end the connection; no receiver sees them."""
    return [
        frame(Types.FRAG, b"x", app_id=CHANNEL),
        frame(Types.HELLO, msgpack.packb([1])),
        frame(255, b"x"),
        frame(Types.DATA, b"x", app_id=CHANNEL, headers=b"x" * 60_000),
        frame(Types.DATA, b"x", app_id=CHANNEL, length=2**31),
        frame(Types.DATA, b"x", app_id=CHANNEL, length=3),
        hello("server"),
        hello("north.server"),
    ]


def hostile_frames(marker, target):
    """One frame of every kind that a receiver has to refuse, again and again."""
    job = job_with_code(marker)
    call = Call(b"t" * 16, "invite", b"x")
    known = [flare_command(topic, job, target=target) for topic in COMMANDS]
    known += [
        flare_command(topic, {"url": "tcp://localhost:1"}, target=target, channel="cellnet.channel")
        for topic in CELL_COMMANDS
    ]
    known += [
        frame(Types.DATA, pickle.dumps(_Exploit(marker)), app_id=CHANNEL),
        frame(Types.DATA, job, app_id=CHANNEL),
        frame(Types.DATA, encode(Call(b"t" * 16, "deploy", job)), app_id=CHANNEL),
        frame(Types.DATA, encode(Call(b"t" * 16, "../../shell", b"cat")), app_id=CHANNEL),
        frame(Types.DATA, encode(Reply(b"t" * 16, "reply", job)), app_id=CHANNEL),
        frame(Types.DATA, encode(call) + b"more", app_id=CHANNEL),
        frame(Types.DATA, encode(call), headers={"topic": "train.deploy"}, app_id=CHANNEL),
        frame(Types.DATA, b"\x81" * 5000, app_id=CHANNEL),
        frame(Types.DATA, b"", headers=[[[]]], app_id=CHANNEL),
    ]
    while True:
        yield from known


class HostileServer:
    """Takes the place of the coordinator's server, with its certificate or another one.

    Args:
        port: The loopback port to listen on.
        credentials: What it shows.
        name: What it calls itself.
    """

    def __init__(self, port, credentials, name="localhost"):
        self._context = credentials.context(server=True)
        self._name = name
        self._listener = socket.create_server(("127.0.0.1", port))
        self._listener.settimeout(60.0)

    def close(self):
        self._listener.close()

    @contextlib.contextmanager
    def connection(self):
        """The next connection of a site, after the handshake; None if it did not come to that."""
        raw, _ = self._listener.accept()
        raw.settimeout(20.0)
        try:
            tls = self._context.wrap_socket(raw, server_side=True)
            tls.recv(4096)  # the site's own name
            tls.sendall(hello(self._name, Types.READY))
        except OSError:
            raw.close()
            yield None
            return
        with tls:
            yield tls


@contextlib.contextmanager
def member(port, credentials, name):
    """A connection to the coordinator's server by a certificate, under whatever name."""
    with socket.create_connection(("127.0.0.1", port), timeout=20.0) as raw:
        context = credentials.context(server=False)
        with context.wrap_socket(raw, server_hostname="localhost") as tls:
            tls.sendall(hello(name))
            yield tls


def is_cut(connection, seconds=20.0):
    """Whether the other end closes the connection in a while."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except (OSError, ssl.SSLError):
        return True
    return True
