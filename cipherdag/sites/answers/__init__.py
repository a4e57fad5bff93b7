"""A site's local answers to questions."""
