"""The start of a Datasite's process: it gives up the site's files before PySyft is imported.

`python -I -m cipherdag.protocol.engines.syft_start PROTECTED SITE COORDINATOR-KEY PRIVATE PORT`,
where PROTECTED is a JSON list of paths; the rest is for `syft_datasite`.

Leaks:
    Nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from cipherdag.protocol.engines.confinement import confine


def main() -> None:
    """Confine this process, say what it cannot reach, and run the Datasite."""
    protected = msgspec.json.decode(sys.argv.pop(1), type=list[str])
    private = Path(sys.argv[3])
    # it listens on the loopback, starts what PySyft starts, and writes into its own folder
    separation = confine(map(Path, protected), writable=[private], carries_only=False)
    (private / "separation").write_bytes(msgspec.json.encode(separation))

    from cipherdag.protocol.engines.syft_datasite import main as datasite

    datasite()


if __name__ == "__main__":
    main()
