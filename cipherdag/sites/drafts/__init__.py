"""Drafts of a schema: guessed from one table, pointed at where odd, merged over sites."""
