"""The Datasite process of one site; runs in PySyft's own environment and sees no data.

`syft_start` runs it for `syft_site.SyftSite`. Of PySyft's web interface two paths are served:
metadata and api_call; of its some hundred services one: ``api.call`` on our one endpoint. What
arrives is read here, its signature checked under the coordinator's key that the study pins, and
the call made anew: PySyft decodes no byte that came from elsewhere (`syft_wire`).
"""

from __future__ import annotations

import gc
import inspect
import logging
import os
import secrets
import shutil
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import syft
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from syft.client.api import SyftAPICall
from syft.server.credentials import SyftSigningKey
from syft.server.datasite import Datasite
from syft.service.action.action_permissions import ActionObjectPermission, ActionPermission
from syft.service.api.api import CreateTwinAPIEndpoint, PublicAPIEndpoint
from syft.service.user.user import User
from syft.service.user.user_roles import ServiceRole
from syft.store.blob_storage.on_disk import (
    OnDiskBlobStorageClientConfig,
    OnDiskBlobStorageConfig,
)
from syft.store.db.sqlite import SQLiteDBConfig
from syft.types.uid import UID

from cipherdag.errors import CipherdagError, MalformedMessageError, SignatureError
from cipherdag.privacy.keys.identity import verify
from cipherdag.protocol.engines.syft_wire import (
    ANSWERED,
    CALL_DOMAIN,
    ENDPOINT,
    ENVELOPE_BYTES,
    REFUSED,
    SYFT_MESSAGE_BYTES,
    SYFT_VERSION,
    UNSIGNED,
    call_parts,
    read_call,
    receive_reply,
    send_request,
)

log = logging.getLogger("cipherdag.datasite")

_ADMIN_EMAIL = "admin@cipherdag.example"
_COORDINATOR_EMAIL = "coordinator@cipherdag.example"
_STOP_TIMEOUT_S = 5.0


def hand_over(socket_path: str, operation: str, message: bytes) -> bytes:
    """Pass a message to the site's own process; called by the endpoint.

    Returns:
        One byte, ``ANSWERED`` or ``REFUSED``, and the reply. It never raises: PySyft would send
        the text of some exceptions to the caller.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(socket_path)
            send_request(connection, operation, message)
            status, reply = receive_reply(connection)
    except Exception:
        log.exception("the site's own process gave no reply")
        status, reply = REFUSED, b""
    return bytes([ANSWERED if status == ANSWERED else REFUSED]) + reply


# PySyft compiles the source of this function alone, so it imports what it needs and quotes Any
def message_endpoint(  # noqa: D103
    context: "Any",  # noqa: UP037
    operation: str,
    message: bytes,
) -> bytes:
    from cipherdag.protocol.engines.syft_datasite import hand_over

    return hand_over(context.settings["socket"], operation, message)


class OneClientDatasite(Datasite):  # type: ignore[misc]
    """A Datasite that makes one client for its endpoint instead of two at every call.

    PySyft hands an endpoint two clients, which ours does not use; it takes most of a call's time to
    make them and never lets go of their 3.5 MB.
    """

    _client: Any = None

    def get_guest_client(self, verbose: bool = True) -> Any:
        """The one client."""
        if self._client is None:
            self._client = super().get_guest_client(verbose=verbose)
        return self._client


def launch_datasite(private: Path, key: SyftSigningKey) -> Datasite:
    """Start a Datasite in memory, with one endpoint and one account beside its administrator.

    Nobody knows the administrator's password, and no account can log in: the one for calls has a
    key of this process, and no password.

    Args:
        private: A folder of mode 0700 that is deleted afterwards; holds ``site.sock``.
        key: The key that the account's calls are signed with.
    """
    datasite = OneClientDatasite(
        name="cipherdag",
        root_email=_ADMIN_EMAIL,
        root_username="admin",
        root_password=secrets.token_urlsafe(32),
        deployment_type="python",
        in_memory_workers=False,
        # "." means a database in memory: replies are never written to a disk
        db_config=SQLiteDBConfig(path=Path()),
        # MB above which PySyft would move a reply to a file
        blob_storage_config=OnDiskBlobStorageConfig(
            client_config=OnDiskBlobStorageClientConfig(base_directory=private),
            min_blob_size=SYFT_MESSAGE_BYTES,
        ),
    )
    root = datasite.root_client
    signature = inspect.signature(message_endpoint)
    root.api.services.api.add(
        endpoint=CreateTwinAPIEndpoint(
            path=ENDPOINT,
            mock_function=PublicAPIEndpoint(
                api_code=inspect.getsource(message_endpoint),
                func_name=message_endpoint.__name__,
                settings={"socket": str(private / "site.sock")},
                signature=signature,
                view_access=False,
            ),
            signature=signature,
        )
    )
    account_id = UID()
    account = User(
        id=account_id,
        email=_COORDINATOR_EMAIL,
        name="coordinator",
        role=ServiceRole.DATA_SCIENTIST,
        verify_key=key.verify_key,
        signing_key=key,
    )
    datasite.services.user.stash.set(
        credentials=datasite.verify_key,
        obj=account,
        add_permissions=[
            ActionObjectPermission(uid=account_id, permission=ActionPermission.ALL_READ)
        ],
    ).unwrap()
    return datasite


class Door:
    """The two paths that a Datasite shows; PySyft's other ones do not exist here.

    Its methods run PySyft in the event loop's own thread on purpose: a database in memory belongs
    to one thread, and a site answers one message at a time anyway.
    """

    def __init__(
        self,
        site: str,
        datasite: Datasite,
        key: SyftSigningKey,
        coordinator: bytes,
        socket_path: str,
    ) -> None:
        self._site = site
        self._datasite = datasite
        self._key = key
        self._coordinator = coordinator
        self._socket = socket_path

    def application(self) -> Starlette:
        """The web application with its two routes."""
        return Starlette(
            routes=[
                Route("/api/v2/metadata", self.metadata, methods=["GET"]),
                Route("/api/v2/api_call", self.api_call, methods=["POST"]),
            ]
        )

    async def metadata(self, _: Request) -> Response:
        """Whose Datasite this is, and its identifier until it is started again."""
        metadata = self._datasite.metadata
        return JSONResponse(
            {"site": self._site, "id": str(metadata.id), "syft_version": metadata.syft_version}
        )

    async def api_call(self, request: Request) -> Response:
        """Run ``api.call`` on the endpoint if the coordinator signed that this site shall.

        A reply is what `hand_over` returned, or ``REFUSED`` where PySyft has nothing of it.
        """
        body = await _body(request, SYFT_MESSAGE_BYTES + ENVELOPE_BYTES)
        if body is None:
            return _reply(413)
        call = self._call(body)
        if call is None:
            return _reply(401)
        del body
        result = self._datasite.handle_api_call_with_unsigned_result(call)
        stored, reply = getattr(result, "value", None), None
        if stored is not None:
            reply = stored.syft_action_data
            # PySyft keeps every result for ever
            self._datasite.services.action.stash.delete_by_uid(
                self._datasite.verify_key, stored.id, has_permission=True
            ).unwrap()
        return _reply(200, reply if isinstance(reply, bytes) else bytes([REFUSED]))

    def _call(self, body: bytes) -> Any | None:
        """The call as PySyft takes it, if the coordinator signed it for this site, else None."""
        server = self._datasite.id
        try:
            signature, operation, message = read_call(body)
            parts = call_parts(str(server), self._site, operation, message)
            verify(self._coordinator, signature, CALL_DOMAIN, *parts)
        except (MalformedMessageError, SignatureError):
            log.warning("refused a request that the coordinator did not sign for this site")
            hand_over(self._socket, UNSIGNED, b"")
            return None
        call = SyftAPICall(
            server_uid=server,
            path="api.call",
            args=[ENDPOINT],
            kwargs={"operation": operation, "message": message},
            blocking=True,
        )
        signed = call.sign(self._key)
        signed.cached_deseralized_message = call  # or PySyft decodes what it has just encoded
        return signed


async def _body(request: Request, limit: int) -> bytes | None:
    """The request's body, or None as soon as it is longer than the limit."""
    received = bytearray()
    async for piece in request.stream():
        received += piece
        if len(received) > limit:
            return None
    return bytes(received)


def _reply(status: int, content: bytes = b"") -> Response:
    return Response(content, status_code=status, media_type="application/octet-stream")


def serve(site: str, coordinator: bytes, private: Path, port: int, *, ready: int) -> None:
    """Serve until standard input closes; write ``ready PORT`` to the descriptor ``ready``."""
    if syft.__version__ != SYFT_VERSION:
        raise CipherdagError(f"this needs syft {SYFT_VERSION}, not {syft.__version__}")
    key = SyftSigningKey.generate()
    datasite = launch_datasite(private, key)
    door = Door(site, datasite, key, coordinator, str(private / "site.sock"))
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        server = uvicorn.Server(
            uvicorn.Config(
                door.application(),
                log_level="critical",
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=1,
            )
        )
        threading.Thread(target=_stop_with_parent, args=(server, private), daemon=True).start()
        # PySyft leaves about a million objects behind; searching them costs half a second
        gc.collect()
        gc.freeze()
        listener.listen()
        os.write(ready, f"ready {listener.getsockname()[1]}\n".encode())
        server.run(sockets=[listener])


def _stop_with_parent(server: Any, private: Path) -> None:
    sys.stdin.buffer.read()
    # the parent may have been killed before it could
    shutil.rmtree(private, ignore_errors=True)
    server.should_exit = True
    time.sleep(_STOP_TIMEOUT_S)
    os._exit(0)


def main() -> None:
    """Run the Datasite; PySyft's own prints go to the log."""
    ready = os.dup(1)
    os.dup2(2, 1)
    # PySyft silences the root logger
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    log.propagate = False
    site, coordinator, private, port = sys.argv[1:]
    serve(site, bytes.fromhex(coordinator), Path(private), int(port), ready=ready)


if __name__ == "__main__":
    main()
