"""Integration tests: intake."""
