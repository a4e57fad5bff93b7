"""Mathematics that both sides compute to the last bit."""
