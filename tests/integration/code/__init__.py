"""Integration tests: code."""
