"""An engine's process gives up rights before it reads a byte from the network.

A process that carries messages needs none of a site's files. On Linux it asks the kernel to take
them away for good: Landlock leaves it the folders that it may read, seccomp the system calls that
it needs. Neither requires a privilege, and neither can be undone by the process.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from cipherdag.errors import SiteNotReadyError
from cipherdag.privacy.wire import Body

# linux/landlock.h; the numbers of the system calls are the same on every architecture
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH, _NET_PORT = 1, 2
_CONNECT_TCP, _TCP, _PORTS_SINCE = 2, 3, 4
DNS = 53
_NO_NEW_PRIVILEGES = 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE = 1 << 14
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: 1 << 13, 3: _TRUNCATE, 5: 1 << 15}
_SCOPES = 0b11  # abstract sockets and signals of other processes, from version 6 on
_SCOPED_SINCE = 6
_FORBIDDEN_CALLS = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "process_madvise"),
    *("io_uring_setup", "userfaultfd", "open_by_handle_at", "mount", "chroot", "unshare", "setns"),
    *("keyctl", "add_key", "request_key"),
)
_FORBIDDEN_TO_CARRIERS = (
    *("execve", "execveat", "listen"),
    # Landlock guards what files hold, and not who else may open them, nor their times
    *("chmod", "fchmod", "fchmodat", 452, "chown", "fchown", "lchown", "fchownat"),
    *("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
    *(463, 466, 469, "utime", "utimes", "utimensat", "futimesat"),
    *("inotify_init", "inotify_init1", "fanotify_init", "quotactl"),
    # limits and priorities of other processes, and memory that they share
    *("setpriority", "ioprio_set", "sched_setaffinity", "sched_setscheduler", "sched_setparam"),
    *("sched_setattr", "setrlimit", "shmget", "shmat", "msgget", "semget", "mq_open"),
)
"""Numbers are calls that libseccomp may not know by name: fchmodat2, setxattrat, removexattrat,
file_setattr."""
_INTERNET = (2, 10, 16)  # AF_INET, AF_INET6, and AF_NETLINK, by which libc looks up names
_FAMILIES = 64
_MOST_WRITTEN = 1024 * 1024  # bytes of the one file that a carrier still holds: what it prints
_LOW_HALF = 0xFFFFFFFF

NAMES_OF_HOSTS = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/run/systemd/resolve",
)
DEVICES = ("/dev/null", "/dev/urandom", "/etc/localtime", "/usr/share/zoneinfo")


class Confinement(Body, frozen=True):
    """How an engine's process is confined, away from a site's files, as the process has tried it.

    ``user`` is the number of the user that it runs as, -1 where the system has none; ``kernel``
    what the kernel enforces (``landlock``, ``seccomp``); ``opened`` the site's files that it could
    open nevertheless.
    """

    user: int
    kernel: tuple[str, ...]
    opened: tuple[str, ...]


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    )


class _PortRule(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def confine(protected: Iterable[Path], *, ports: tuple[int, ...] = ()) -> Confinement:
    """Give up all files but Python's own, and the system calls that an engine does not need.

    Call it before the process has a second thread, else it is a SiteNotReadyError: Landlock binds
    the thread that asks, and those that it starts. The process may connect to ``ports``. Returned
    is what was enforced, and which ``protected`` files of the site could be opened all the same.
    """
    kernel = []
    if sys.platform == "linux":
        if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - names are enough
            raise SiteNotReadyError(
                "the engine's process has a second thread, which would keep its rights",
                remedy="Report this: what it imports before it gives up the files started one.",
            )
        _limit_output()
        # this one first: finding its library starts a program
        if _seccomp():
            kernel.append("seccomp")
        if _landlock(_readable(), ports=(*ports, DNS)):
            kernel.append("landlock")
    user = os.getuid() if hasattr(os, "getuid") else -1
    return Confinement(user, tuple(kernel), tuple(str(p) for p in protected if _opens(p)))


def _limit_output() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_WRITTEN, _MOST_WRITTEN))


def _readable() -> list[Path]:
    """Python, its packages, this package, and what looks up names of hosts."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {entry for entry in sys.path if entry.endswith(("-packages", "lib-dynload"))}
    paths |= {str(Path(__file__).parents[2]), "/lib", "/lib64", "/usr/lib", "/usr/lib64"}
    paths |= {*NAMES_OF_HOSTS, *DEVICES, os.path.realpath("/etc/resolv.conf")}
    return [Path(path) for path in sorted(paths)]


def _landlock(readable: list[Path], *, ports: tuple[int, ...]) -> bool:
    """Whether the kernel took all other files away."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    version = call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    if version < 1:
        return False
    handled = sum(right for since, right in _RIGHTS_BY_VERSION.items() if since <= version)
    scopes = _SCOPES if version >= _SCOPED_SINCE else 0
    network = _TCP if version >= _PORTS_SINCE else 0
    rules = _Ruleset(handled, network, scopes)
    # an older kernel knows a shorter structure, and refuses a longer one that is not zero
    made = call(
        _CREATE_RULESET,
        ctypes.byref(rules),
        ctypes.c_size_t(ctypes.sizeof(rules)),
        ctypes.c_uint32(0),
    )
    if made < 0:
        return False
    try:
        for path in readable:
            _allow(call, made, path, handled & (_EXECUTE | _READ_FILE | _READ_DIR))
        for port in ports if network else ():
            rule = _PortRule(_CONNECT_TCP, port)
            call(_ADD_RULE, ctypes.c_int(made), _NET_PORT, ctypes.byref(rule), ctypes.c_uint32(0))
        _allow(call, made, Path("/dev/null"), handled)
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(call(_RESTRICT_SELF, ctypes.c_int(made), ctypes.c_uint32(0)) == 0)
    finally:
        os.close(made)


def _allow(call: ctypes._NamedFuncPointer, ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    try:
        rights = rights if path.is_dir() else rights & _FILE_RIGHTS
        rule = _PathRule(rights, descriptor)
        call(
            _ADD_RULE, ctypes.c_int(ruleset), _PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0)
        )
    finally:
        os.close(descriptor)


def _seccomp() -> bool:
    """Whether the kernel refuses the calls that an engine does not need."""
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError):  # the library libseccomp may be absent
        return False
    refused = pyseccomp.ERRNO(1)
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in _FORBIDDEN_CALLS + _FORBIDDEN_TO_CARRIERS:
        rules.add_rule(refused, name)
    # the buses and sockets of the machine; the kernel looks at the lower half of a number
    for family in {*range(_FAMILIES)} - {*_INTERNET}:
        named = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, _LOW_HALF, family)
        rules.add_rule(refused, "socket", named)
    for argument in (0, 2):  # the limits of another process, or setting a limit
        rules.add_rule(refused, "prlimit64", pyseccomp.Arg(argument, pyseccomp.NE, 0))
    rules.load()
    return True


def _opens(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True
