"""Integration tests: bot."""
