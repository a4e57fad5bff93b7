"""Score tests within the sites, and what of scores that stay closed is opened."""
