"""Integration tests: daemon."""
