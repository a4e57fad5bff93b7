"""One session at a site: set-up, rounds, and the only door."""
