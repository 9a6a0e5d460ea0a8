"""Integration tests: storage."""
