"""Start-up kits of NVIDIA FLARE, made so that every private key is born where it stays.

The coordinator opens an authority (`open_authority`) and hands out its fingerprint. Each party
makes its own key and sends a request (`request_kit`); the coordinator signs it (`approve_kit`);
the party assembles its kit (`assemble_kit`). The kit then allows no code, names the few classes
that a job may use, and streams no log. FLARE's own ``nvflare cert`` and ``nvflare package`` do
the work on certificates.

Leaks:
    A request holds a public key, a name and an organisation. No private key leaves its folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cipherdag.errors import ParameterError, SiteNotReadyError

Role = Literal["server", "client", "admin"]
PARTY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
PROJECT = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
SITE_EXECUTOR = "cipherdag.protocol.engines.nvflare_site.SiteExecutor"
SITE_VALIDATOR = "cipherdag.protocol.engines.nvflare_site.SiteJobValidator"
RELAY_CONTROLLER = "cipherdag.protocol.engines.nvflare_relay.RelayController"
COMMAND_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Party:
    """One party of a FLARE project: the server (named by its host), a site or the coordinator."""

    name: str
    role: Role
    organisation: str

    def __post_init__(self) -> None:
        if not PARTY.fullmatch(self.name) or not PROJECT.fullmatch(self.organisation):
            raise ParameterError(f"{self.name!r} of {self.organisation!r} cannot name a party")


@dataclass(frozen=True, slots=True)
class Kit:
    """One party's start-up kit on its own machine."""

    folder: Path
    party: Party

    @classmethod
    def load(cls, folder: Path) -> Kit:
        """The kit in ``folder``.

        Raises:
            SiteNotReadyError: There is none.
        """
        about = folder / "local" / "cipherdag.json"
        if not about.exists():
            raise SiteNotReadyError(
                f"{folder} holds no kit",
                remedy="Is --dir the folder that `coordinator new` or `site activate` made?",
            )
        known = json.loads(about.read_text("utf-8"))
        return cls(folder, Party(known["name"], known["role"], known["organisation"]))


def open_authority(folder: Path, *, project: str, host: str, port: int) -> str:
    """Make the coordinator's root certificate and return its fingerprint.

    Args:
        folder: Where the authority's key stays; must not exist.
        project: Name of the study.
        host: Host name of the FLARE server; ``localhost`` binds the loopback only.
        port: Its one port.

    Raises:
        SiteNotReadyError: FLARE could not make it.
        ParameterError: The name cannot be used.
    """
    if not PROJECT.fullmatch(project):
        raise ParameterError(f"{project!r} cannot name a project")
    folder.mkdir(mode=0o700, parents=True)
    profile = {
        "name": project,
        "scheme": "grpc",
        "connection_security": "mtls",
        "server": {"host": host, "fed_learn_port": port, "admin_port": port},
    }
    (folder / "profile.yaml").write_text(json.dumps(profile), "utf-8")
    arguments = ["--profile", str(folder / "profile.yaml"), "--output-dir", str(folder)]
    said = _nvflare(folder, "cert", "init", *arguments)
    return str(said["rootca_fingerprint_sha256"])


def request_kit(folder: Path, party: Party, *, project: str) -> Path:
    """Make a party's key in ``folder`` and the request to send, which holds no secret.

    Raises:
        SiteNotReadyError: FLARE could not make it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about: dict[str, Any] = {"name": party.name, "type": party.role, "org": party.organisation}
    if party.role == "admin":
        about["role"] = "lead"
    (folder / "party.yaml").write_text(
        json.dumps({"name": project, "participants": [about]}), "utf-8"
    )
    arguments = ["-p", str(folder / "party.yaml"), "--out", str(folder / "request")]
    return Path(_nvflare(folder, "cert", "request", *arguments)["request_zip"])


def approve_kit(authority: Path, request: Path, *, valid_days: int = 1095) -> Path:
    """Sign a request whose sender the coordinator has checked; the answer holds no secret.

    Raises:
        SiteNotReadyError: The request is altered or of another project.
    """
    signed = request.with_name(request.name.replace(".request.zip", ".signed.zip"))
    arguments = [str(request), "--ca-dir", str(authority), "--valid-days", str(valid_days)]
    arguments += ["--profile", str(authority / "profile.yaml"), "--out", str(signed)]
    return Path(_nvflare(authority, "cert", "approve", *arguments)["signed_zip"])


def assemble_kit(
    folder: Path,
    party: Party,
    signed: Path,
    *,
    fingerprint: str,
    site_folder: Path | None = None,
    executor: str = SITE_EXECUTOR,
) -> Kit:
    """Assemble a party's kit from its own key and the signed answer.

    Args:
        folder: The folder given to `request_kit`.
        party: The party given to `request_kit`.
        signed: The answer of `approve_kit`.
        fingerprint: The authority's fingerprint, learnt by another way than the answer.
        site_folder: A site's key, policy, data and ledger; must lie outside the kit.
        executor: The one class that a job may name at a site.

    Raises:
        SiteNotReadyError: The fingerprint or the answer does not fit.
        ParameterError: A site without its folder.
    """
    if party.role == "client" and site_folder is None:
        raise ParameterError("a site's kit needs the site's folder")
    arguments = [str(signed), "--request-dir", str(folder / "request")]
    arguments += ["-w", str(folder / "workspace"), "--fingerprint", fingerprint]
    said = _nvflare(folder, "package", *arguments)
    kit = folder / "kit"
    Path(said["output_dir"]).rename(kit)
    shutil.rmtree(folder / "workspace")
    local = kit / "local"
    about = {"name": party.name, "role": party.role, "organisation": party.organisation}
    if site_folder is not None:
        # relative, so that the site's folder can be moved as a whole
        about["site_folder"] = os.path.relpath(site_folder.resolve(), local.resolve())
    _write(local / "cipherdag.json", about)
    if party.role != "admin":
        _write(local / "authorization.json", _authorization())
        default = json.loads((local / "resources.json.default").read_text("utf-8"))
        server = party.role == "server"
        limits = _server_limits(default) if server else _client_limits(default, executor)
        _write(local / "resources.json", limits)
    return Kit(kit, party)


def _authorization() -> dict[str, Any]:
    """Rights of the coordinator's user; nobody may run code, a shell or another's job."""
    return {
        "format_version": "1.0",
        "permissions": {
            "project_admin": "none",
            "org_admin": "none",
            "lead": {
                "submit_job": "any",
                "clone_job": "none",
                "manage_job": "n:submitter",
                "download_job": "none",
                "view": "any",
                "operate": "none",
                "sys_info": "any",
                "app_command": "any",
                "shell_commands": "none",
                "byoc": "none",
                "server-predeployed-flwr": "none",
            },
            "member": "none",
        },
    }


def _client_limits(default: dict[str, Any], executor: str) -> dict[str, Any]:
    kept = {"resource_manager", "resource_consumer", "process_launcher"}
    return {
        **default,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [executor],
        "allow_log_streaming": False,
        "app_validator": {"path": SITE_VALIDATOR, "args": {"executor": executor}},
        # the log streamer would send the site's error log to the server
        "components": [part for part in default["components"] if part["id"] in kept],
    }


def _server_limits(default: dict[str, Any]) -> dict[str, Any]:
    kept = [part for part in default["components"] if part["id"] != "log_receiver"]
    return {
        **default,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [RELAY_CONTROLLER],
        "components": kept,
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def _nvflare(home: Path, *words: str) -> dict[str, Any]:
    """Run one command of FLARE; its own records go to ``home``, not to the user's home."""
    done = subprocess.run(  # noqa: S603 - fixed words and checked names
        [sys.executable, "-m", "nvflare.cli", "--format", "json", *words],
        capture_output=True,
        encoding="utf-8",
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=COMMAND_TIMEOUT_S,
        env={**os.environ, "HOME": str(home.resolve())},
    )
    said = next((line for line in done.stdout.splitlines() if line.startswith("{")), "{}")
    answer = json.loads(said)
    if done.returncode != 0 or answer.get("status") != "ok":
        reason = answer.get("message") or done.stderr.strip().splitlines()[-1:] or "no answer"
        raise SiteNotReadyError(f"nvflare {words[0]} failed: {reason}")
    data: dict[str, Any] = answer["data"]
    return data
