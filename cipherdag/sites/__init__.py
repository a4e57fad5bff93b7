"""What runs inside a site.

Where neither a docstring nor its module has a ``Leaks:`` section, nothing leaves unprotected.
"""
