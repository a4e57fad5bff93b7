"""The one program of a plan, which coordinator and sites go through step by step.

Where a docstring has no ``Leaks:`` section, nothing leaves but what the program asks for.
"""
