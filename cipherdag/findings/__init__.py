"""What a run found beside its graph, as data: confidence, panels, curves.

Where a docstring has no ``Leaks:`` section, it tells nothing new: all follows from opened sums.
"""
