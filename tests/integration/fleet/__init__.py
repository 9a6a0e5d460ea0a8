"""Integration tests: fleet."""
