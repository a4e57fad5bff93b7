"""GraphCheck: whether the data keep the independences that a graph implies."""
