"""The set-up of a session: what travels, whose lot decides, and the coordinator's part in it."""
