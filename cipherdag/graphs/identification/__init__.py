"""From a graph to the sets of variables that identify an effect; no data, no estimate."""
