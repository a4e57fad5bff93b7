"""Runs ``cipherdag`` without what Windows lacks: modules, functions and sockets of POSIX.

    python tests/support/without_posix.py simulate fedpc table.csv --out out , report out

It stands in for Windows as far as names go: a path, a file mode or a signal behaves as ever. Text
that is opened without naming its encoding, which Windows reads in another, is an error.
"""

import os
import socket
import sys
import warnings

MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}
FUNCTIONS = ("O_CLOEXEC", "chown", "fchmod", "fork", "geteuid", "getuid", "killpg", "setsid")


class Missing:
    """Says of every module of POSIX that there is none."""

    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


if __name__ == "__main__":
    import psutil  # noqa: F401 - Linux's own half of it needs them, Windows' has others

    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Missing())
    for name in FUNCTIONS:
        delattr(os, name)
    del socket.AF_UNIX
    warnings.filterwarnings("error", category=EncodingWarning, module=r"cipherdag\..*")
    from cipherdag.cli.main import main

    for said in " ".join(sys.argv[1:]).split(" , "):
        sys.argv[1:] = said.split()
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise
