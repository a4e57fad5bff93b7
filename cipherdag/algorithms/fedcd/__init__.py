"""Fed-CD: beliefs of neural models, averaged over sites."""
