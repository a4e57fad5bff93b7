"""What a run gives back: result, report, sentences, and the folder of a saved run."""
