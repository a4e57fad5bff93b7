"""What is asked and what is concluded.

Where a docstring has no ``Leaks:`` section, nothing is told but what the run's questions open.
"""
