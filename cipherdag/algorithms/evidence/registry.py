"""The registry maps names to combination methods, which the modules of this folder declare."""

from importlib import import_module

from cipherdag.algorithms.evidence.combination_method import CombinationMethod

_FILES = ("within_sites", "combined", "pooled_moments", "pooled_regressions")
EVIDENCE = {
    kind.name: kind
    for file in _FILES
    for kind in vars(import_module(f"cipherdag.algorithms.evidence.{file}")).values()
    if isinstance(kind, CombinationMethod)
}
