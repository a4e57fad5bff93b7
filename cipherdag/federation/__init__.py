"""The face for Python: put sites together, run an algorithm, get a result."""
