"""Which questions each algorithm asks the sites, and what it concludes.

Where a docstring has no ``Leaks:`` section, nothing is disclosed but what the run's questions say.
"""
