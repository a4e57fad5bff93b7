"""What a site allows, what it has used of that, and what a person approved."""
