"""The other sets that a graph lets an effect be adjusted for, as options of a command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cipherdag.errors import DataError
from cipherdag.graphs.identification.answers import MOST_SETS, Identified

if TYPE_CHECKING:
    from cipherdag.graphs.identification.answers import Answer


def other_sets(answer: Answer) -> list[str]:
    """Options of ``effect`` for sets that suffice and that it does not choose, at most five."""
    if not isinstance(answer, Identified) or answer.method != "adjustment":
        return []
    others = [each for each in answer.sets if each != answer.chosen][:MOST_SETS]
    pair = ["--treatment", answer.treatment, "--outcome", answer.outcome]
    return [shlex.join([*pair, "--adjust", _as_text(each)]) for each in others]


@contextmanager
def naming_other_sets(algorithm: str, parameters: Mapping[str, Any]) -> Iterator[None]:
    """Let the error of an effect that no rows tell name the other sets that its graph has."""
    try:
        yield
    except DataError as error:
        if graph := parameters.get("graph") if algorithm == "effect" else "":
            from cipherdag.graphs.graph import CausalGraph

            pair = parameters["treatment"], parameters["outcome"]
            if others := other_sets(CausalGraph.loads(graph).identify(*pair)):
                error.remedy += (
                    f" Or adjust for another set that suffices by the graph: in place of --graph, "
                    f"--treatment and --outcome give {'; or '.join(others)}."
                )
        raise


def _as_text(names: tuple[str, ...]) -> str:
    plain = all("," not in name and not name.startswith("[") for name in names)
    return ",".join(names) if plain else json.dumps(names, ensure_ascii=False)
