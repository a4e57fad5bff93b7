"""The parameters with which an algorithm is that of its paper, or of its authors' program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from cipherdag.algorithms.parameters import Parameter
from cipherdag.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Published:
    """One publication of an algorithm: a paper, or a program.

    Attributes:
        parameters: The values of parameters that differ from this package's defaults.
        varied: Parameters that the publication varies or does not state, or that change no result;
            all others have the value above, or their default.
        needed: Those of ``varied`` that a caller must give, since no default is right.
    """

    parameters: Mapping[str, Any]
    varied: frozenset[str]
    needed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def values(
        self, title: str, declared: Mapping[str, Parameter], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The publication's parameters that are not defaults, with the values that a caller gives.

        Args:
            title: The algorithm and where it was published, for errors.
            declared: All its parameters.
            given: Values of parameters by name.

        Raises:
            ParameterError: A value contradicts the publication, is of no parameter, or is missing.
        """
        for name, value in given.items():
            if name not in declared:
                raise ParameterError(f"{title} has no parameter '{name}'")
            fixed = self.parameters.get(name, declared[name].default)
            if name not in self.varied and value != fixed:
                raise ParameterError(
                    f"{name} {value} contradicts {title}: there it is {fixed}",
                    remedy=f"Leave out {_option(name)}, or --as-published (Python: as_published).",
                )
        for name in sorted(self.needed - {*given}):
            raise ParameterError(
                f"{title} needs {name}: {declared[name].help}",
                remedy=f"Say it: {_option(name)}, in Python as_published({name}=...).",
            )
        return {**self.parameters, **given}


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
