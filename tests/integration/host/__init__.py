"""Integration tests: host."""
