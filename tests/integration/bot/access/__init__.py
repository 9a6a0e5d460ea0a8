"""Integration tests: bot access."""
