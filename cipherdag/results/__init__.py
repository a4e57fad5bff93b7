"""What a run gives back: result, report, sentences, and the folder of a saved run.

Where a docstring has no ``Leaks:`` section, nothing leaves: a result is made where it is read.
"""
