"""A site's folder, its study, and checks of both."""
