"""The site's half under NVIDIA FLARE: an Executor, a gate for jobs, and the client's own start.

A FLARE server is not trusted here. It says in its own messages which user a command comes from
and whether a right must be checked, so rights alone do not hold it back: as shipped, its shell
command prints any file that the client may read. A site therefore starts its client with
``python -m cipherdag.protocol.engines.nvflare_site``, which answers only the commands that a job
needs, and deploys only the one job whose every byte of meaning is known (`SiteJobValidator`).
FLARE's privacy filters do not see auxiliary messages; the policy sits in the site's handler.

Leaks:
    One of five fixed words, or the handler's own reply bytes. The text of an exception goes to
    the site folder's ``site.log`` and nowhere else; FLARE's own logs never hold it.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nvflare.apis.app_validation import AppValidator
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable, make_reply

from cipherdag.protocol.engines.nvflare_kit import SITE_EXECUTOR
from cipherdag.protocol.engines.site_socket import ask_site
from cipherdag.protocol.limits import MAX_MESSAGE_BYTES
from cipherdag.protocol.messages import OPERATIONS
from cipherdag.protocol.site_log import SITE_LOG, log_into

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.signal import Signal

CALL_TOPIC = "cipherdag.call"
PING_TOPIC = "cipherdag.ping"
SITE_CONFIG = "cipherdag.json"
CLIENT_CONFIG = "config_fed_client.json"
SIGNATURES = frozenset({".__nvfl_sig.json", ".__nvfl_submitter.crt"})
READY_TIMEOUT_S = 600.0
# what a client must answer for a job to be scheduled, deployed, started and stopped
CLIENT_COMMANDS = frozenset(
    {
        "AbortAppProcessor",
        "CancelResourceProcessor",
        "CheckResourceProcessor",
        "ClientStatusProcessor",
        "DeleteRunNumberProcessor",
        "DeployProcessor",
        "NotifyJobStatusProcessor",
        "StartJobProcessor",
    }
)

log = logging.getLogger("cipherdag.site")


class SiteExecutor(Executor):  # type: ignore[misc]
    """Hands each message to the site's handler and its reply back; FLARE's tasks are refused.

    The job gives it no argument: what it serves stands in ``local/cipherdag.json`` of the site's
    own kit, whose ``site_folder`` names the folder where the site's own process is found.
    """

    operations: ClassVar[frozenset[str]] = OPERATIONS
    max_message_bytes: ClassVar[int] = MAX_MESSAGE_BYTES

    def __init__(self) -> None:
        super().__init__()
        self._handler: Callable[[str, bytes], bytes] | None = None
        self._ready = threading.Event()
        self._computing = threading.Lock()

    @staticmethod
    def open_site(folder: Path) -> Callable[[str, bytes], bytes]:
        """The way to the process of the site whose files lie in ``folder``."""
        return functools.partial(ask_site, folder)

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Open the site when a run starts."""
        if event_type != EventType.START_RUN:
            return
        engine = fl_ctx.get_engine()
        engine.register_aux_message_handler(topic=PING_TOPIC, message_handle_func=self.on_ping)
        engine.register_aux_message_handler(topic=CALL_TOPIC, message_handle_func=self.on_call)
        try:
            local = Path(engine.get_workspace().get_site_config_dir())
            known = json.loads((local / SITE_CONFIG).read_text("utf-8"))
            folder = (local / known["site_folder"]).resolve()
            log_into(folder / SITE_LOG)
            self._handler = self.open_site(folder)
        except Exception:
            # whatever failed, its text may quote data and must not reach FLARE's logs
            log.exception("the site cannot be opened")
        finally:
            self._ready.set()

    def on_ping(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        """Say that this process lives."""
        del topic, request, fl_ctx
        return _outcome("alive")

    def on_call(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        """Answer one message; whatever goes wrong, one fixed word is all that leaves."""
        del topic, fl_ctx
        operation, message = request.get("operation"), request.get("message")
        if type(operation) is not str or operation not in self.operations:
            return _outcome("refused")
        if type(message) is not bytes or len(message) > self.max_message_bytes:
            return _outcome("refused")
        if not self._ready.wait(READY_TIMEOUT_S) or not self._computing.acquire(blocking=False):
            return _outcome("busy")
        try:
            return self._answer(operation, message)
        finally:
            self._computing.release()

    def _answer(self, operation: str, message: bytes) -> Shareable:
        if self._handler is None:
            return _outcome("failed")
        try:
            reply = self._handler(operation, message)
        except Exception:
            log.exception("failed on %s", operation)
            return _outcome("failed")
        if type(reply) is not bytes or len(reply) > self.max_message_bytes:
            log.error("the reply to %s is not bytes, or too long", operation)
            return _outcome("failed")
        result = _outcome("reply")
        result["reply"] = reply
        return result

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """Refuse every task: the task channel is not used."""
        del task_name, shareable, fl_ctx, abort_signal
        return make_reply(ReturnCode.TASK_UNKNOWN)


class SiteJobValidator(AppValidator):  # type: ignore[misc]
    """Lets a site deploy one job only: a single small file that names the site's executor.

    It holds whichever user or role the server claims, unlike the right ``byoc``.

    Args:
        executor: Path of the only class that a job may name at this site.
    """

    def __init__(self, executor: str = SITE_EXECUTOR) -> None:
        super().__init__()
        self._expected = client_config(executor)

    def validate(self, app_folder: str) -> tuple[str, dict[str, Any]]:
        """Accept or refuse an unpacked job.

        Returns:
            An error text, empty if the job is accepted, and FLARE's own dictionary.
        """
        root = Path(app_folder)
        found = [path for path in root.rglob("*") if path.name not in SIGNATURES]
        files = sorted(path.relative_to(root).as_posix() for path in found)
        if files != ["config", f"config/{CLIENT_CONFIG}"]:
            return "this site takes jobs without code and without further files", {}
        path = root / "config" / CLIENT_CONFIG
        try:
            known = json.loads(path.read_bytes()) == self._expected
        except (ValueError, RecursionError):  # FLARE keeps the files of a job at which this raises
            known = False
        if not known:
            return "this site takes jobs that name its own executor only", {}
        return "", {}


def client_config(executor: str) -> dict[str, Any]:
    """What a job tells a site: the one class to build, without arguments."""
    return {
        "format_version": 2,
        "executors": [{"tasks": ["*"], "executor": {"path": executor, "args": {}}}],
        "task_data_filters": [],
        "task_result_filters": [],
        "components": [],
    }


def needed_commands(commands: Sequence[Any]) -> list[Any]:
    """The commands of FLARE's client that a job needs; shell, reports and restart are not."""
    return [command for command in commands if type(command).__name__ in CLIENT_COMMANDS]


def main() -> None:
    """Run FLARE's client with the commands of `CLIENT_COMMANDS` and no other."""
    from nvflare.fuel.f3.mpm import MainProcessMonitor
    from nvflare.private.fed.app.client import client_train
    from nvflare.private.fed.client.client_req_processors import (
        ClientRequestProcessors,
    )

    commands = ClientRequestProcessors.request_processors
    commands[:] = needed_commands(commands)
    arguments = client_train.parse_arguments()
    sys.exit(
        MainProcessMonitor.run(
            main_func=client_train.main, run_dir=arguments.workspace, args=arguments
        )
    )


def _outcome(word: str) -> Shareable:
    reply = make_reply(ReturnCode.OK)
    reply["outcome"] = word
    return reply


if __name__ == "__main__":
    main()
