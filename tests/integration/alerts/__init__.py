"""Integration tests: alerts."""
