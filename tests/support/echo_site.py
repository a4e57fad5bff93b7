"""A site that echoes, raises, dawdles or hangs, inside the site processes of the contract tests."""

from __future__ import annotations

import time

from cipherdag.protocol.engines.nvflare_site import SiteExecutor
from cipherdag.protocol.engines.site_socket import ask_site

SECRET = "the cell in row 7 is 42.125"


class EchoExecutor(SiteExecutor):
    operations = frozenset({"echo", "raise", "hang", "text", "slow", "kept"})

    @staticmethod
    def open_site(folder):
        def handle(operation, message):
            if operation == "raise":
                raise RuntimeError(SECRET)
            if operation == "text":
                return "not bytes"
            if operation == "kept":
                return ask_site(folder, operation, message)
            if operation == "slow":
                time.sleep(3.0)
            if operation == "hang":
                while not (folder / "release").exists():
                    time.sleep(0.05)
            return folder.name.encode() + b":" + message

        return handle
