"""The live view of a run: a read-only page on this machine's own address, behind a random path.

Leaks:
    To whoever has the address, on this machine: what is asked, how much has left each site, and
    the skeleton so far, all of which the coordinator has anyway. No answer and no sum is shown.
"""

from __future__ import annotations

import math
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Bundle, Question
from cipherdag.questions.separators import BestIndexPrecedes, BestScoreExceeds, CandidateScores
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.questions.threshold import ContributorCounts, Suppressed

if TYPE_CHECKING:
    from cipherdag.protocol.progress import RoundReport

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 24
LISTENING_S = 3.0  # a page that is open asks more often
IDLE_S = 10.0  # how long a connection may say nothing
MOST_CONNECTIONS = 16  # at a time, each of which has a thread
CROWDED = 3.0  # edges per variable above which nothing is drawn
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class LiveState:
    """A run at one moment."""

    began: float  # when it began, as `time.monotonic`
    round: int = 0  # the round in progress; 0 before the first
    label: str = ""
    rounds: int = 0  # rounds finished since it began
    number: int = 0  # number, in the run, of the last round that finished
    values: int = 0
    sent: Mapping[str, int] | None = None
    present: tuple[str, ...] = ()  # sites whose answers are in the last sum
    n_cohort: int = 0
    skeleton: Skeleton | None = None
    # the variables in the order of their positions; empty where only sites know them
    names: tuple[str, ...] = ()
    ended: bool = False


class LiveRun:
    """Follows a run as its `Watcher`; `state` may be read from any thread."""

    def __init__(self) -> None:
        self.state = LiveState(time.monotonic())
        self.read = -math.inf  # when the state was last read, as `time.monotonic`
        self.end_read = threading.Event()
        self._progress: Callable[[RoundReport], None] = lambda _: None

    def part(self) -> str:
        """The changing part of the page."""
        state = self.state
        text = live_part(state)
        self.read = time.monotonic()
        if state.ended:
            self.end_read.set()
        return text

    def close(self) -> None:
        """The run ends; a page that is open has a moment to hear of it."""
        self.state = replace(self.state, ended=True)
        if time.monotonic() - self.read < LISTENING_S:
            self.end_read.wait(LISTENING_S)

    def watching(self, progress: Callable[[RoundReport], None], names: Sequence[str]) -> Self:
        """Itself as a progress callback that also calls ``progress``."""
        self.state = replace(self.state, names=tuple(names))
        self._progress = progress
        return self

    def asked(self, number: int, question: Question, shown: Presence | None) -> None:
        """A round begins."""
        drawn = asked_skeleton(question) or self.state.skeleton
        if shown is not None and shown.skeleton is not None:
            drawn = Skeleton.from_matrix(shown.skeleton)
        label = f"{question.label}{share_done(shown)}"
        self.state = replace(self.state, round=number, label=label, skeleton=drawn)

    def __call__(self, report: RoundReport) -> None:
        """A round is finished."""
        before = self.state.sent or {}
        self.state = replace(
            self.state,
            rounds=self.state.rounds + 1,
            number=report.number,
            values=self.state.values + report.values,
            sent={s: before.get(s, 0) + each for s, each in report.bytes_sent_per_site.items()},
            present=tuple(s for s, each in report.bytes_sent_per_site.items() if each),
            n_cohort=report.n_cohort,
        )
        self._progress(report)


def share_done(shown: Presence | None) -> str:
    """How many of the tests of a search that takes several rounds are asked; else nothing."""
    if shown is None or shown.tests is None:
        return ""
    done, most = shown.tests
    return f": {done:,} of at most {most:,}" if done < most else ""


def asked_skeleton(question: Question) -> Skeleton | None:
    """The skeleton that a question is about; None if it is about none."""
    if isinstance(question, Bundle):
        return next(filter(None, map(asked_skeleton, question.parts)), None)
    if isinstance(question, ContributorCounts | Suppressed):
        return asked_skeleton(question.question)
    if isinstance(question, EdgeVotes):
        return question.skeleton
    if isinstance(question, BestScoreExceeds | BestIndexPrecedes | CandidateScores):
        return question.search.skeleton
    return None


def live_part(state: LiveState) -> str:
    """The changing part of the page as HTML."""
    from cipherdag.graphs.drawing.communities import overview
    from cipherdag.graphs.drawing.picture import graph_picture, overview_picture
    from cipherdag.graphs.graph import CausalGraph
    from cipherdag.pages.files import render

    skeleton, picture = state.skeleton, None
    if skeleton is not None and skeleton.n_edges <= CROWDED * skeleton.n_variables:
        has_names = len(state.names) == skeleton.n_variables
        numbers = tuple(str(number) for number in range(1, skeleton.n_variables + 1))
        graph = CausalGraph.from_arcs(state.names if has_names else numbers, skeleton.matrix())
        shown = overview(graph)
        picture = overview_picture(shown, graph) if shown.collapsed else graph_picture(graph)
    return render(
        "live_part.html.j2",
        state=state,
        seconds=int(time.monotonic() - state.began),
        picture=picture,
        edges=skeleton.n_edges if skeleton is not None else None,
    )


def live_page() -> str:
    """The page that asks for the changing part again and again."""
    from cipherdag.pages.files import render

    return render("live.html.j2", scripts=("live.js",), title="cipherdag live")


class _Server(ThreadingHTTPServer):
    """Has `MOST_CONNECTIONS` threads at most; a connection beyond them is closed."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__((LOOPBACK, 0), handler)
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a thread, if there is one left."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and give the thread back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing for a connection that broke off, as when a page is closed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class LiveServer:
    """Serves the live view of a run; a context manager.

    Only this machine can connect, only who has the address gets an answer, and nothing can be
    changed through it.
    """

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._token = secrets.token_urlsafe(TOKEN_BYTES)
        self._server = _Server(_handler(run, self._token))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """The address to open; whoever has it can read the page, on this machine."""
        return f"http://{LOOPBACK}:{self._server.server_port}/{self._token}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(run: LiveRun, token: str) -> type[BaseHTTPRequestHandler]:
    class PageHandler(BaseHTTPRequestHandler):
        """Answers GET below the token and nothing else."""

        server_version, sys_version = "cipherdag", ""
        timeout = IDLE_S

        def do_GET(self) -> None:
            """The page, or its changing part."""
            # a name that leads here from elsewhere (DNS rebinding) does not get an answer
            host = self.headers.get("Host", "")
            if host != f"{LOOPBACK}:{self.connection.getsockname()[1]}":
                self.send_error(421)
                return
            before, given, part = [*self.path.split("/", 2), "", ""][:3]
            is_authorized = secrets.compare_digest(given.encode(), token.encode()) and not before
            if is_authorized and self.path == f"/{token}/":
                self._send(live_page())
            elif is_authorized and part == "part":
                self._send(run.part())
            else:
                self.send_error(404)

        def _send(self, text: str) -> None:
            content = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing: a log of requests would hold the token."""

    return PageHandler
