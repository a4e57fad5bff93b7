"""Folders, kits, enrolment and started processes of both sides of a real study."""
