"""The algorithms: which questions each asks the sites, and what it concludes from the answers.

Where a docstring has no ``Leaks:`` section, nothing is disclosed but what the run's questions say.
"""
