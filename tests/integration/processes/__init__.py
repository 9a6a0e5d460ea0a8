"""Integration tests: processes."""
