"""FedPC: a causal graph from layer-wise votes or from one test over all sites."""
