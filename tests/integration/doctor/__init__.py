"""Integration tests: doctor."""
