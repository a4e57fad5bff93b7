"""Engines carry opaque bytes to every site and back."""
