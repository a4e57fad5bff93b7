"""Whoever carries the messages, or sits in the network, runs nothing at a site and reads nothing.

Written against the revision that had FLARE's jobs, the first three succeeded within two attempts
(docs/adr/0044-no-code-crosses.md). Here real processes are attacked: by the coordinator, by another
site with its own certificate, by a local account, and by strangers.
"""

import contextlib
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from waiting import wait_until

from cipherdag.errors import SiteNotReadyError, SiteUnreachableError
from cipherdag.protocol.engines import flare_engine
from cipherdag.protocol.engines.flare_engine import FlareEngine

ATTEMPTS = 200
ASK = "invite"
SITES = ("north", "south")
PRIVATE = ("data.csv", "keys/identity.pem", "ledger.jsonl", "policy.toml")


@pytest.fixture
def attacked(tmp_path):
    """A study with two sites, the files that must stay out of reach, and what code would write."""
    if not os.environ.get("CIPHERDAG_REQUIRE_FLARE"):
        pytest.importorskip("nvflare", reason="needs the extra 'flare'")
    from loopback import LoopbackStudy

    made = LoopbackStudy.make(tmp_path / "study", SITES)
    for name in SITES:
        for private in PRIVATE:
            path = made.folder / name / private
            path.parent.mkdir(exist_ok=True)
            path.write_text("secret")
    return made


class Watched:
    """A site's engine process, and all that the site's own process heard of it."""

    def __init__(self, study, name):
        self.asked, self.heard = [], []
        protected = tuple(str(study.folder / name / private) for private in PRIVATE)
        self.process = study.site(name, self._handle, self.heard.append, protected)

    def _handle(self, operation, message):
        self.asked.append((operation, message))
        return b"an answer"

    @property
    def started(self):
        return self.heard[0]

    def refused(self, of=""):
        return sum(
            own.times for own in self.heard if getattr(own, "refused", False) and of in own.what
        )

    def connected(self):
        return any("connected" in getattr(own, "what", "") for own in self.heard)


def test_a_hostile_coordinator_runs_nothing_and_is_recorded(attacked, tmp_path):
    """With the server's own key it sends FLARE's commands, jobs with code and false messages."""
    from hostile_peer import HostileServer, hostile_frames

    marker = tmp_path / "ran"
    frames = hostile_frames(marker, "north")
    server = HostileServer(attacked.port, attacked.credentials("server"))
    watched = Watched(attacked, "north")
    with contextlib.closing(server), watched.process:
        before = children_and_files(watched.process.pid, attacked.folder)
        with server.connection() as connection:
            for _ in range(ATTEMPTS):
                connection.sendall(next(frames))
            wait_until(lambda: watched.refused() >= ATTEMPTS)
        assert watched.process.running
        assert children_and_files(watched.process.pid, attacked.folder) == before
    assert watched.refused() == ATTEMPTS
    assert watched.asked == []
    assert not marker.exists()


def children_and_files(pid, folder):
    """Programs that a process has started, and files of a folder with their contents."""
    import psutil

    children = [child.pid for child in psutil.Process(pid).children(recursive=True)]
    logs = ("engine.log",)
    files = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name not in logs}
    return children, files


def test_broken_frames_end_a_connection_and_no_process(attacked):
    from hostile_peer import HostileServer, broken_frames

    watched = Watched(attacked, "north")
    with watched.process:
        server = HostileServer(attacked.port, attacked.credentials("server"))
        with (
            contextlib.closing(server),
            server.connection() as connection,
            contextlib.suppress(OSError),  # it is cut at one of them
        ):
            for sent in broken_frames():
                connection.sendall(sent)
        with attacked.relay():
            engine = FlareEngine(attacked.coordinator, sites=("north",), start_s=60.0)
            assert engine.call(ASK, {"north": b"x"}, timeout_s=60.0) == {"north": b"an answer"}
    assert watched.asked == [(ASK, b"x")]


def test_another_site_reaches_nobody_but_the_coordinator(attacked, tmp_path):
    """Over an honest server, with its own certificate, under its own name and under others'."""
    from hostile_peer import broken_frames, hostile_frames, is_cut, member

    marker = tmp_path / "ran"
    frames = hostile_frames(marker, "north")
    watched = Watched(attacked, "north")
    with attacked.relay(), watched.process:
        wait_until(watched.connected)
        heard = len(watched.heard)
        own = attacked.credentials("south")
        for name in ("north", "localhost", "server", "south.north", "", "_admin_" + "0" * 32):
            with member(attacked.port, own, name) as connection:
                assert is_cut(connection)
        with member(attacked.port, own, "south") as connection:
            connection.recv(4096)
            for _ in range(ATTEMPTS):
                connection.sendall(next(frames))
            with contextlib.suppress(OSError):
                for sent in broken_frames():
                    connection.sendall(sent)
            assert is_cut(connection)
        engine = FlareEngine(attacked.coordinator, sites=("north",), start_s=0.0)
        assert engine.call(ASK, {"north": b"x"}, timeout_s=60.0) == {"north": b"an answer"}
    assert watched.asked == [(ASK, b"x")]
    assert watched.heard[heard:] == [], "nothing of the other site came as far as this one"
    assert not marker.exists()


def test_certificates_of_sites_and_strangers_serve_nothing(attacked):
    """Who stands in the coordinator's place with another certificate gets no word of a site."""
    from hostile_peer import HostileServer

    watched = Watched(attacked, "north")
    server = HostileServer(attacked.port, attacked.credentials("south"))
    with contextlib.closing(server), watched.process:
        for _ in range(2):
            with server.connection() as connection:
                assert connection is None
        wait_until(lambda: watched.refused("not the coordinator's") >= 2)
    assert not watched.connected()
    assert watched.asked == []


def test_a_server_s_certificate_and_a_revoked_site_cannot_connect(attacked):
    from hostile_peer import is_cut, member

    (attacked.folder / "shut-out").mkdir()
    attacked.certify("shut-out")
    with attacked.relay() as relay:
        for own, name in (("server", "localhost"), ("server", "north"), ("shut-out", "shut-out")):
            with (
                contextlib.suppress(OSError),
                member(attacked.port, attacked.credentials(own), name) as connection,
            ):
                assert is_cut(connection)
        assert relay.port == attacked.port


def test_a_local_account_finds_no_listener_and_no_socket_to_command(attacked):
    """The engine's process listens on nothing; the server's socket wants the user and a token."""
    import psutil

    watched = Watched(attacked, "north")
    with attacked.relay(), watched.process:
        wait_until(watched.connected)
        found = psutil.Process(watched.process.pid).net_connections("inet")
        assert {own.status for own in found} <= {"ESTABLISHED"}
        assert not [
            own for own in psutil.Process(watched.process.pid).net_connections("unix") if own.laddr
        ]
        address = attacked.coordinator / flare_engine.ADDRESS_FILE
        assert address.stat().st_mode & 0o077 == 0
        path, token = address.read_text().split()
        assert Path(path).parent.stat().st_mode & 0o077 == 0
        for number in range(ATTEMPTS):
            address.write_text(f"{path}\n{number:064x}\n")
            with pytest.raises(SiteNotReadyError):
                flare_engine.ask(attacked.coordinator, "deliver", b"")
        address.write_text(f"{path}\n{token}\n")
        assert b"north" in flare_engine.ask(attacked.coordinator, "connected", b"")
    assert watched.asked == []


def test_start_up_files_and_variables_do_not_reach_the_process(attacked, tmp_path, monkeypatch):
    """PYTHONPATH, PYTHONSTARTUP, sitecustomize, usercustomize, .pth, the folder it starts in."""
    marker = tmp_path / "ran"
    code = f"open({str(marker)!r}, 'a').write('ran')\n"
    home = tmp_path / "home"
    user = home / ".local" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    for folder in (tmp_path / "path", user, attacked.folder / "north"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("sitecustomize.py", "usercustomize.py", "cipherdag.py", "nvflare.py"):
            (folder / name).write_text(code)
        (folder / "x.pth").write_text(f"import os; {code}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "path" / "sitecustomize.py"))
    monkeypatch.setenv("PYTHONHOME_", "x")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NVFLARE_COMM_DRIVER_PATH", str(tmp_path / "path"))
    monkeypatch.setenv("DATABASE_PASSWORD", "secret")
    monkeypatch.chdir(attacked.folder / "north")
    watched = Watched(attacked, "north")
    with attacked.relay(), watched.process:
        wait_until(watched.connected)
        environment = Path(f"/proc/{watched.process.pid}/environ").read_bytes()
    assert b"secret" not in environment
    assert b"PYTHON" not in environment
    assert b"NVFLARE" not in environment
    assert not marker.exists()


# what the process itself can do


def test_the_engine_s_process_opens_none_of_the_site_s_files(attacked):
    watched = Watched(attacked, "north")
    with watched.process:
        separation = watched.started.separation
    assert separation.opened == ()
    assert "landlock" in separation.kernel or separation.user != os.getuid()
    # the same files open where nothing is given up: the test would notice a wrong path
    assert all((attacked.folder / "north" / private).read_text() == "secret" for private in PRIVATE)


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")
def test_every_thread_of_the_engine_s_process_has_given_up_its_rights(attacked):
    """Both bind one thread and those it starts: code enters an earlier one by a signal."""
    watched = Watched(attacked, "north")
    with attacked.relay(), watched.process:
        wait_until(watched.connected)
        found = {
            line
            for thread in Path(f"/proc/{watched.process.pid}/task").iterdir()
            for line in (thread / "status").read_text().splitlines()
            if line.startswith(("Seccomp:", "NoNewPrivs:"))
        }
    assert found == {"Seccomp:\t2", "NoNewPrivs:\t1"}


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")
def test_a_process_with_a_second_thread_is_not_called_confined():
    code = "import threading, time\nfrom cipherdag.protocol.engines.confinement import confine\n"
    code += "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nconfine(())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert "a second thread" in said.stderr


TRIES = """
import ctypes, os, resource, socket, subprocess, sys
from pathlib import Path
from cipherdag.protocol.engines.confinement import confine
folder, door, parent = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
port = int(sys.argv[4])
held = os.open(folder, os.O_PATH)
gained = []
def attempt(name, work):
    try:
        result = work()
    except (OSError, subprocess.SubprocessError):
        return
    if result is not None:
        gained.append(name)
separation = confine(())
for private in sys.argv[5:]:
    attempt("open", lambda: os.open(folder / private, os.O_RDONLY))
    attempt("write", lambda: os.open(folder / private, os.O_WRONLY))
    attempt("dir_fd", lambda: os.open(private, os.O_RDONLY, dir_fd=held))
    attempt("fd path", lambda: open(f"/proc/self/fd/{held}/{private}").read())
    attempt("root path", lambda: open(f"/proc/self/root{folder / private}").read())
    attempt("parent's root", lambda: open(f"/proc/{parent}/root{folder / private}").read())
    attempt("link", lambda: os.link(folder / private, folder / "linked"))
    attempt("cat", lambda: subprocess.run(["/bin/cat", folder / private], check=True,
                                          stdout=subprocess.DEVNULL))
    attempt("rename", lambda: os.rename(folder / private, folder / "renamed") or 1)
attempt("list", lambda: os.listdir(folder))
attempt("create", lambda: (folder / "new").write_text("x"))
attempt("environment", lambda: open(f"/proc/{parent}/environ", "rb").read())
attempt("memory", lambda: open(f"/proc/{parent}/mem", "rb"))
libc = ctypes.CDLL(None, use_errno=True)
attempt("ptrace", lambda: 1 if libc.ptrace(0x4206, parent, 0, 0) == 0 else None)
attempt("signal", lambda: os.kill(parent, 0) or 1)
attempt("mode", lambda: os.chmod(folder, 0o755) or 1)
attempt("owner", lambda: os.chown(folder, os.getuid(), os.getgid()) or 1)
attempt("times", lambda: os.utime(folder) or 1)
attempt("attribute", lambda: os.setxattr(folder, "user.x", b"x") or 1)
attempt("limits", lambda: resource.prlimit(parent, resource.RLIMIT_CORE))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, parent, 1) or 1)
libc.socket.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_int]
for family in (1, 1 << 32 | 1, 17, 38, 40):
    attempt("family", lambda: 1 if libc.socket(family, 1, 0) >= 0 else None)
def connected():
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(door)
        return 1
attempt("local socket", connected)
attempt("another port", lambda: socket.create_connection(("127.0.0.1", port), timeout=5))
attempt("listen", lambda: socket.create_server(("127.0.0.1", 0)))
print(",".join(separation.kernel), sorted(set(gained)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")
def test_code_in_the_place_of_the_engine_gains_nothing(attacked, tmp_path):
    """Whatever would run there: files by any path, other processes, programs, local sockets."""
    folder = attacked.folder / "north"
    door = str(tmp_path / "door")
    with (
        socket.socket(socket.AF_UNIX) as listener,
        socket.create_server(("127.0.0.1", 0)) as another,
    ):
        listener.bind(door)
        listener.listen()
        port = another.getsockname()[1]
        words = [str(folder), door, str(os.getpid()), str(port), *PRIVATE]
        said = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(TRIES), *words],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        free = TRIES.replace("confine(())", "type('S', (), {'kernel': ()})")
        control = subprocess.run(
            [sys.executable, "-c", free, *words], capture_output=True, text=True, check=True
        ).stdout
    assert said == "seccomp,landlock []\n"
    for gain in (
        "open",
        "dir_fd",
        "cat",
        "list",
        "local socket",
        "listen",
        "environment",
        "mode",
        "limits",
        "family",
    ):
        assert gain in control, "without confinement the same attempt succeeds"


# strangers


def test_two_thousand_idle_connections_from_one_address_stop_nobody(attacked):
    north, south = Watched(attacked, "north"), Watched(attacked, "south")
    with contextlib.ExitStack() as up:
        up.enter_context(attacked.relay())
        up.enter_context(north.process)
        wait_until(north.connected)
        for _ in range(2000):
            own = socket.create_connection(("127.0.0.1", attacked.port), timeout=20.0)
            up.callback(own.close)
        engine = FlareEngine(attacked.coordinator, sites=("north",), start_s=0.0)
        assert engine.call(ASK, {"north": b"x"}, timeout_s=60.0) == {"north": b"an answer"}
        up.enter_context(south.process)  # from the same address, while they are still open
        wait_until(south.connected)
        engine = FlareEngine(attacked.coordinator, sites=SITES, start_s=30.0)
        replies = engine.call(ASK, dict.fromkeys(SITES, b"x"), timeout_s=60.0)
    assert replies == dict.fromkeys(SITES, b"an answer")


SERVES = """
import sys, time
from pathlib import Path
from loopback import LoopbackStudy
study = LoopbackStudy(Path(sys.argv[1]), ("north", "south"), int(sys.argv[2]))
with study.relay():
    print("ready", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def served(study):
    """The coordinator's server in a process of its own."""
    import psutil

    command = [sys.executable, "-c", SERVES, str(study.folder), str(study.port)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as own:
        try:
            assert own.stdout.readline() == b"ready\n"
            yield psutil.Process(own.pid)
        finally:
            own.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors as Linux does")
def test_a_flood_of_connections_holds_no_more_than_a_few_at_once(attacked):
    """They come at once, as many as the kernel keeps for a server that is busy."""
    from cipherdag.protocol.engines.flare_driver import WAITING_PER_ADDRESS

    with served(attacked) as server, contextlib.ExitStack() as up:
        before = server.num_fds()
        server.suspend()
        for _ in range(600):
            up.callback(socket.create_connection(("127.0.0.1", attacked.port)).close)
        server.resume()
        most = []
        wait_until(lambda: most.append(server.num_fds()) or len(most) > 50)
        assert max(most[10:]) <= before + 2 * WAITING_PER_ADDRESS


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors as Linux does")
def test_a_site_that_asks_for_answers_and_reads_none_is_cut(attacked):
    """FLARE answers every PING: 16 bytes each, and much more memory until they are sent."""
    from hostile_peer import frame, member
    from nvflare.fuel.f3.sfm.constants import Types

    with served(attacked) as server, contextlib.suppress(OSError):
        before = server.memory_info().rss
        with member(attacked.port, attacked.credentials("south"), "south") as connection:
            connection.settimeout(20.0)
            for _ in range(500):
                connection.sendall(frame(Types.PING, b"") * 1000)
                assert server.memory_info().rss < before + 64 * 2**20


def test_what_a_process_prints_does_not_fill_the_site_s_disk(attacked):
    """FLARE prints a line for every frame that it cannot handle."""
    from hostile_peer import HostileServer, frame
    from nvflare.fuel.f3.sfm.constants import Types

    watched = Watched(attacked, "north")
    console = attacked.folder / "north" / "engine.log"
    server = HostileServer(attacked.port, attacked.credentials("server"))
    with contextlib.closing(server), watched.process, server.connection() as connection:
        for _ in range(40):
            connection.sendall(frame(255, b"x") * 1000)
        connection.sendall(frame(Types.DATA, b"x"))
        wait_until(watched.refused)
        assert 2**19 < console.stat().st_size <= 2**20
        assert watched.process.running


def test_a_run_whose_server_has_stopped_names_the_server_and_no_site(attacked):
    watched = Watched(attacked, "north")
    with attacked.relay(), watched.process:  # in this order: a refused call is tried again late
        engine = FlareEngine(attacked.coordinator, sites=("north",), start_s=60.0)
    with pytest.raises(SiteUnreachableError, match="server is not started"):
        engine.call(ASK, {"north": b"x"}, timeout_s=10.0)


def test_a_site_that_was_shut_out_is_told_and_its_process_ends(attacked):
    (attacked.folder / "west").mkdir()
    attacked.certify("west")
    with attacked.relay():
        watched = Watched(attacked, "west")
        with watched.process:
            wait_until(lambda: not watched.process.running)
    said = [own.what for own in watched.heard[1:]]
    assert any("revoked" in what for what in said), said
    assert watched.asked == []
