"""A PostgreSQL server of its own for the tests: in a new folder, on a socket, with passwords."""

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

REQUIRED = "CIPHERDAG_POSTGRES"  # "required": a machine without PostgreSQL fails these tests
ADMIN = "admin"
PASSWORD = "Tr0ub4dor&3: a p@ss/word"
NOT_HERE = "PostgreSQL's initdb and pg_ctl are not on this machine"
OPTIONS = "-c listen_addresses= -c fsync=off -c max_connections=20 -c unix_socket_directories="


def programs():
    """The folder of initdb and pg_ctl, or None."""
    found = shutil.which("postgres")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((f for f in folders if (f / "initdb").exists() and (f / "pg_ctl").exists()), None)


def need():
    """The programs; without them the test is skipped, or fails where they are required."""
    found = programs()
    if found is None:
        if os.environ.get(REQUIRED) == "required":
            pytest.fail(f"{NOT_HERE}, and {REQUIRED}=required")
        pytest.skip(NOT_HERE)
    return found


@contextmanager
def server():
    """A running server: the folder of its socket, which stands for host in an address."""
    binaries = need()
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path has 107 bytes at most
    data, secret = folder / "data", folder / "password"
    secret.write_text(PASSWORD + "\n", "utf-8")
    user = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        account = pwd.getpwnam("postgres")
        user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        for path in (folder, secret):
            os.chown(path, account.pw_uid, account.pw_gid)

    def call(program, *arguments):
        done = subprocess.run(
            [binaries / program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
            cwd=folder,
            **user,
        )
        assert done.returncode == 0, done.stdout

    try:
        made = ("-U", ADMIN, "--pwfile", secret, "-E", "UTF8", "--locale=C", "--no-sync")
        call("initdb", "-D", data, "--auth=scram-sha-256", *made)
        settings = f"{OPTIONS}{folder}"
        call("pg_ctl", "-D", data, "-w", "-s", "-l", folder / "log", "-o", settings, "start")
        try:
            yield folder
        finally:
            call("pg_ctl", "-D", data, "-w", "-s", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
