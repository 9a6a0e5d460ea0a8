"""Integration tests: diagnosis."""
