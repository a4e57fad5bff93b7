"""What programs read in place of people: JSON, and the server for agents."""
