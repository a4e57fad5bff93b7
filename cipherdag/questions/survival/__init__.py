"""What a coordinator asks of times until an event: counts in bins, and steps of Cox models."""
