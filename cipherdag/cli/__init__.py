"""The ``cipherdag`` command: it parses, calls and prints."""
