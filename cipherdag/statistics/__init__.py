"""Mathematics that both sides compute to the last bit.

Pure arithmetic: nothing leaves the party that computes.
"""
