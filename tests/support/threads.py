"""What a script prints with one thread and with more."""

import os
import subprocess
import sys


def printed_by_threads(script):
    """Distinct outputs of a Python script, run with 1, 2 and 4 threads of its libraries."""
    return {
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
        ).stdout
        for threads in ("1", "2", "4")
    }
