"""Checks a folder against RO-Crate 1.2 with roc-validator, without a network.

    python benchmarks/validate_crate.py FOLDER CONTEXT

CONTEXT is the file of JSON-LD terms that the library rocrate carries; it stands for every context
that the validator would fetch. Other addresses answer that they cannot be reached.
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from rocrate_validator import models, services

CONTEXTS = "https://w3id.org/ro/crate/"


def offline(context: bytes):
    """What sends a request, of the context alone."""

    def send(_self, request, **_):
        if not request.url.startswith(CONTEXTS):
            raise requests.ConnectionError(f"no network for {request.url}")
        answer = requests.Response()
        answer.status_code, answer.url, answer.request = 200, request.url, request
        answer.headers["Content-Type"] = "application/ld+json"
        answer.raw = BytesIO(context)
        return answer

    return send


def main(folder: str, context: str) -> int:
    """Print what is wrong; returns the exit code."""
    HTTPAdapter.send = offline(Path(context).read_bytes())
    result = services.validate(
        models.ValidationSettings(
            rocrate_uri=folder,
            profile_identifier="ro-crate-1.2",
            requirement_severity=models.Severity.REQUIRED,
            skip_availability_check=True,
            cache_path=None,
            no_cache=True,
        )
    )
    for issue in result.get_issues():
        print(f"{issue.check.identifier}: {issue.message}")

    print(f"RO-Crate 1.2: {'valid' if result.passed() else 'NOT VALID'}")
    return 0 if result.passed() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
