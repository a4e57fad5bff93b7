"""Questions of the score test: what sites add up, and what of it is opened."""
