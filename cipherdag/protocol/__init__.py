"""How a question travels and a round ends."""
