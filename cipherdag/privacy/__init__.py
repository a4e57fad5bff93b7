"""How numbers are protected; knows nothing of causality.

Where a docstring has no ``Leaks:`` section, nothing leaves but what its class or module names.
"""
