"""Integration tests: alerts outside."""
