"""Integration tests: code git."""
