"""The FLARE server's half: messages to every site at once, and the app command that asks for it.

Leaks:
    The server job sees operation names, opaque message bytes and who answered.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from typing import TYPE_CHECKING, Any

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable

from cipherdag.protocol.engines.nvflare_site import CALL_TOPIC, PING_TOPIC
from cipherdag.protocol.limits import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nvflare.apis.client import Client
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.signal import Signal

COMMAND_TOPIC = "cipherdag.relay"
INLINE_BYTES = 1024 * 1024
PART_BYTES = 8 * 1024 * 1024
PING_TIMEOUT_S = 2.0
WATCH_S = 0.5
REASONS = {"busy": "timeout", "refused": "failed", "failed": "failed"}

Outcome = bytes | str


class SiteLinks:
    """Reaches the sites of one server job; a site found dead costs later rounds one ping only.

    Args:
        engine: FLARE's server engine.
        start_s: Seconds that a site's process may take to come up.
        probe_s: Seconds of silence after which a site that owes a reply is pinged.
        misses: Pings in a row without an answer that make a site dead.
    """

    def __init__(self, engine: Any, *, start_s: float, probe_s: float, misses: int) -> None:
        self._engine = engine
        self._started = time.monotonic()
        self._start_s = start_s
        self._probe_s = probe_s
        self._misses = misses
        self._alive: set[str] = set()
        self._dead: set[str] = set()

    def send(self, operation: str, messages: Mapping[str, bytes], timeout_s: float) -> Round:
        """Start one round; every site has its own thread, so none waits for another."""
        pending = Round(messages)
        for site, message in messages.items():
            threading.Thread(
                target=self._deliver,
                args=(pending, site, operation, message, time.monotonic() + timeout_s),
                daemon=True,
            ).start()
        return pending

    def watch(self, pending: Round) -> None:
        """Ping the sites that owe a reply for long; give up on those that are gone."""
        for site in pending.silent(self._probe_s):
            if site not in self._alive or self._ping(site):
                pending.missed[site] = 0
                continue
            pending.missed[site] = pending.missed.get(site, 0) + 1
            if pending.missed[site] >= self._misses:
                self._lose(site)
                pending.settle(site, "unreachable")

    def _deliver(
        self, pending: Round, site: str, operation: str, message: bytes, deadline: float
    ) -> None:
        if not self._reach(site, deadline):
            pending.settle(site, "unreachable")
            return
        request = Shareable()
        request["operation"] = operation
        request["message"] = message
        reply = self._ask(site, CALL_TOPIC, request, deadline - time.monotonic())
        code = reply.get_return_code() if reply is not None else ReturnCode.COMMUNICATION_ERROR
        if reply is not None and code == ReturnCode.OK:
            pending.settle(site, _reply(reply))
            return
        # FLARE's code says how the message was lost, a ping whether the site was lost with it
        alive = self._ping(site)
        if not alive:
            self._lose(site)
        if code == ReturnCode.TIMEOUT:
            pending.settle(site, "timeout")
        else:
            pending.settle(site, "failed" if alive else "unreachable")

    def _reach(self, site: str, deadline: float) -> bool:
        if site in self._alive:
            return True
        patience = time.monotonic() if site in self._dead else self._started + self._start_s
        while not self._ping(site):
            if time.monotonic() >= min(patience, deadline):
                self._lose(site)
                return False
            time.sleep(0.2)
        self._alive.add(site)
        self._dead.discard(site)
        return True

    def _lose(self, site: str) -> None:
        self._alive.discard(site)
        self._dead.add(site)

    def _ping(self, site: str) -> bool:
        reply = self._ask(site, PING_TOPIC, Shareable(), PING_TIMEOUT_S)
        return reply is not None and reply.get("outcome") == "alive"

    def _ask(self, site: str, topic: str, request: Shareable, timeout_s: float) -> Shareable | None:
        if timeout_s <= 0 or self._engine.get_client_from_name(site) is None:
            return None
        with self._engine.new_context() as context:
            replies = self._engine.send_aux_request(
                targets=[site],
                topic=topic,
                request=request,
                timeout=timeout_s,
                fl_ctx=context,
                optional=True,
            )
        reply = (replies or {}).get(site)
        return reply if isinstance(reply, Shareable) else None


class Round:
    """Replies as they come: bytes, or the reason why there are none."""

    def __init__(self, sites: Mapping[str, bytes]) -> None:
        self.missed: dict[str, int] = {}
        self._started = time.monotonic()
        self._open = set(sites)
        self._outcomes: dict[str, Outcome] = {}
        self._changed = threading.Condition()

    def settle(self, site: str, outcome: Outcome) -> None:
        """Set a site's outcome; what comes later for the same site is dropped."""
        with self._changed:
            if site in self._open:
                self._open.discard(site)
                self._outcomes[site] = outcome
                self._changed.notify_all()

    def wait(self, seconds: float) -> tuple[dict[str, Outcome], set[str]]:
        """Outcomes so far and the sites still open, when none is open or time is up."""
        with self._changed:
            self._changed.wait_for(lambda: not self._open, seconds)
            return dict(self._outcomes), set(self._open)

    def silent(self, seconds: float) -> list[str]:
        """Sites that are still open after so many seconds."""
        with self._changed:
            late = time.monotonic() - self._started >= seconds
            return sorted(self._open) if late else []


class RelayController(Controller):  # type: ignore[misc]
    """Relays for an algorithm in the user's own process, which calls it by app command.

    Every step may be repeated without effect, so that a lost answer can be asked for again.
    """

    def __init__(
        self,
        start_s: float = 15.0,
        probe_s: float = 3.0,
        misses: int = 5,
        idle_s: float = 3600.0,
    ) -> None:
        super().__init__()
        self._settings = {"start_s": start_s, "probe_s": probe_s, "misses": misses}
        self._idle_s = idle_s
        self._links: SiteLinks | None = None
        self._uploads: dict[str, bytearray] = {}
        self._round: tuple[str, Round] | None = None
        self._used = time.monotonic()

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Take commands from now on."""
        engine = fl_ctx.get_engine()
        self._links = SiteLinks(engine, **self._settings)  # type: ignore[arg-type]
        engine.register_app_command(COMMAND_TOPIC, self.on_command)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Watch over the open round until the user ends the job or forgets it."""
        del fl_ctx
        while not abort_signal.triggered:
            time.sleep(WATCH_S)
            if time.monotonic() - self._used > self._idle_s:
                return
            if self._round is not None and self._links is not None:
                self._links.watch(self._round[1])

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is left to stop."""

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, ctx: FLContext
    ) -> None:
        """No task is ever given, so no result is expected."""

    def on_command(self, topic: str, data: dict[str, Any], fl_ctx: FLContext) -> dict[str, Any]:
        """One step: ``hello``, ``put`` a part of a message, ``send`` a round, ``take`` replies."""
        del topic, fl_ctx
        self._used = time.monotonic()
        steps: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "hello": lambda _: {"ready": self._links is not None},
            "put": self._put,
            "send": self._send,
            "take": self._take,
            "part": self._part,
        }
        return steps[data["step"]](data)

    def _put(self, data: dict[str, Any]) -> dict[str, Any]:
        upload = self._uploads.setdefault(data["digest"], bytearray())
        part = base64.b64decode(data["part"], validate=True)
        if len(upload) == data["offset"] and len(upload) + len(part) <= MAX_MESSAGE_BYTES:
            upload += part
        return {"size": len(upload)}

    def _send(self, data: dict[str, Any]) -> dict[str, Any]:
        if self._links is not None and (self._round is None or self._round[0] != data["ticket"]):
            for digest, part in data["inline"].items():
                self._uploads[digest] = bytearray(base64.b64decode(part, validate=True))
            blobs = {digest: bytes(upload) for digest, upload in self._uploads.items()}
            if any(hashlib.sha256(blob).hexdigest() != digest for digest, blob in blobs.items()):
                return {"error": "a message is incomplete"}
            self._uploads.clear()
            messages = {site: blobs[digest] for site, digest in data["messages"].items()}
            sent = self._links.send(data["operation"], messages, data["timeout_s"])
            self._round = (data["ticket"], sent)
        return self._take(data)

    def _take(self, data: dict[str, Any]) -> dict[str, Any]:
        outcomes, pending = self._current(data).wait(data["wait_s"])
        done: dict[str, dict[str, Any]] = {}
        for site, outcome in outcomes.items():
            if site in data["known"]:
                continue
            if isinstance(outcome, str):
                done[site] = {"reason": outcome}
            elif len(outcome) <= INLINE_BYTES:
                done[site] = {"reply": base64.b64encode(outcome).decode()}
            else:
                done[site] = {"size": len(outcome)}
        return {"done": done, "pending": sorted(pending)}

    def _part(self, data: dict[str, Any]) -> dict[str, Any]:
        outcomes, _ = self._current(data).wait(0)
        blob = outcomes[data["site"]]
        start = data["offset"]
        part = blob[start : start + PART_BYTES] if isinstance(blob, bytes) else b""
        return {"part": base64.b64encode(part).decode()}

    def _current(self, data: dict[str, Any]) -> Round:
        if self._round is None or self._round[0] != data["ticket"]:
            raise KeyError("ticket")
        return self._round[1]


def _reply(reply: Shareable) -> Outcome:
    outcome, blob = reply.get("outcome"), reply.get("reply")
    if outcome == "reply":
        sound = type(blob) is bytes and len(blob) <= MAX_MESSAGE_BYTES
        return blob if sound else "failed"
    return REASONS.get(outcome, "failed") if isinstance(outcome, str) else "failed"
