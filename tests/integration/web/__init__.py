"""The HTTP service of a real daemon."""
