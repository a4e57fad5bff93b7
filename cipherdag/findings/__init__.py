"""What a run found beside its graph, as data: confidence, panels, curves."""
