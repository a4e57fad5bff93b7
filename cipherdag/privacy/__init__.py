"""How numbers are protected; knows nothing of causality."""
