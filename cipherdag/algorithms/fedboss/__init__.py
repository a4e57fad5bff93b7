"""FedBOSS: a causal graph from the best order of the variables, by scores of all sites' rows."""
