"""How a question travels and a round ends.

Where a docstring has no ``Leaks:`` section, nothing leaves but what its class or module names.
"""
