"""What runs inside a site."""
