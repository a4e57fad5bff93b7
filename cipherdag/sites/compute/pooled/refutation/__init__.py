"""Rows as a site changes them to doubt an effect."""
