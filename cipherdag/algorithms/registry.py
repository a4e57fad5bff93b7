"""The algorithms by name: one line each, and nothing else in the package lists them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cipherdag.errors import ParameterError

if TYPE_CHECKING:
    from cipherdag.algorithms.algorithm import Algorithm

# classes as text, so that nothing heavy is imported before an algorithm is used
ALGORITHMS = {
    "describe": "cipherdag.algorithms.describe.algorithm:Describe",
    "fedpc": "cipherdag.algorithms.fedpc.algorithm:FedPC",
    "fedfci": "cipherdag.algorithms.fedfci.algorithm:FedFCI",
    "fedcmfs": "cipherdag.algorithms.fedcmfs.algorithm:FedCMFS",
    "rfcd": "cipherdag.algorithms.rfcd.algorithm:RFcd",
    "fedboss": "cipherdag.algorithms.fedboss.algorithm:FedBOSS",
    "fedcd": "cipherdag.algorithms.fedcd.algorithm:FedCD",
    "survival": "cipherdag.algorithms.survival.algorithm:Survival",
    "effect": "cipherdag.algorithms.effect.algorithm:Effect",
    "graphcheck": "cipherdag.algorithms.graphcheck.algorithm:GraphCheck",
}
PROGRAM_ROOMS = ("algorithms", "findings", "graphs", "questions", "statistics")
"""The folders of this package that decide what is asked next."""


def algorithm_class(name: str) -> type[Algorithm[Any, Any]]:
    """The class of a name, such as "fedpc"; ParameterError where there is none."""
    defined = ALGORITHMS.get(name) or _installed().get(name)
    if defined is None:
        installed = ", ".join(algorithm_names())
        raise ParameterError(
            f"there is no algorithm named '{name[:80]}'", remedy=f"Installed here are {installed}."
        )
    module, _, cls = defined.partition(":")
    return getattr(import_module(module), cls)


def algorithm_names() -> tuple[str, ...]:
    """The names of all algorithms that are installed, this package's first."""
    return tuple({**ALGORITHMS, **_installed()})


def _installed() -> dict[str, str]:
    """The algorithms of other packages, which name them as entry points."""
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group="cipherdag.algorithms")}


def make_algorithm(name: str, parameters: Mapping[str, Any]) -> Algorithm[Any, Any]:
    """The algorithm of a name with its parameters, as JSON, TOML or options say them.

    ParameterError where there is no such algorithm or parameter, or it is out of its range.
    """
    cls = algorithm_class(name)
    from cipherdag.algorithms.parameters import flattened, grouped, no_parameter, options_of

    declared = options_of(cls)
    given = flattened(cls, parameters)
    # a saved run may name a retired parameter at the value that it was retired with
    given = dict(pair for pair in given.items() if pair not in cls.retired.items())
    if unknown := sorted(set(given) - set(declared)):
        raise no_parameter(f"'{name}'", unknown[0], declared)
    read = {key: declared[key].read(value) for key, value in given.items()}
    return cls(**grouped(cls, read))


def chosen_algorithm(given: Algorithm[Any, Any] | str) -> Algorithm[Any, Any]:
    """The algorithm that a caller gives, or the default one of a name; else ParameterError."""
    from cipherdag.algorithms.algorithm import Algorithm

    if isinstance(given, type):
        raise ParameterError(
            f"{given.__name__} is a class, not an algorithm with its parameters",
            remedy=f"Write {given.__name__}(), with parameters in the brackets if need be.",
        )
    if isinstance(given, Algorithm):
        return given
    if not isinstance(given, str):
        raise ParameterError(
            f"an algorithm or its name is needed, not {given!r:.80}",
            remedy=f"Known are {', '.join(ALGORITHMS)}.",
        )
    name = given.strip().lower()
    try:
        return make_algorithm(name, {})
    except ParameterError as error:
        close = get_close_matches(name, ALGORITHMS, n=1)
        hint = f"Did you mean '{close[0]}'?" if close else f"Known are {', '.join(ALGORITHMS)}."
        raise ParameterError(error.message, remedy=hint) from None


@cache
def program_digest(name: str) -> str:
    """SHA-256 over all sources that decide what an algorithm asks, in hexadecimal.

    These are the `PROGRAM_ROOMS`, ``arrays.py`` and ``predicates.py`` of this package; and, of an
    algorithm that another package defines, every file of that package or module.
    """
    package = Path(__file__).parents[1]
    files = [file for room in PROGRAM_ROOMS for file in (package / room).rglob("*.py")]
    state = _digest_of(package, [*files, package / "arrays.py", package / "predicates.py"])
    if name not in ALGORITHMS:
        home = import_module(algorithm_class(name).__module__.partition(".")[0])
        for folder in map(Path, getattr(home, "__path__", ())):
            state.update(_digest_of(folder, folder.rglob("*.py")).digest())
        if home.__file__ is not None:  # a namespace has none
            state.update(hashlib.sha256(Path(home.__file__).read_bytes()).digest())
    return state.hexdigest()


def _digest_of(folder: Path, files: Iterable[Path]) -> hashlib._Hash:
    """The state of a digest over files, by their paths in a folder."""
    state = hashlib.sha256()
    for file in sorted(files):
        state.update(hashlib.sha256(file.relative_to(folder).as_posix().encode()).digest())
        state.update(hashlib.sha256(file.read_bytes()).digest())
    return state


def reads_labels(name: str) -> bool:
    """True if the coordinator of an algorithm needs the positions of labels."""
    return _is_installed(name) and "labels" in algorithm_class(name).reads


def reads_relations(name: str) -> bool:
    """True if the coordinator of an algorithm needs the determined variables."""
    return _is_installed(name) and "relations" in algorithm_class(name).reads


def title_of(name: str) -> str:
    """The title of an algorithm; its name if it is not registered."""
    return algorithm_class(name).title if _is_installed(name) else name


def _is_installed(name: str) -> bool:
    return name in ALGORITHMS or name in _installed()
