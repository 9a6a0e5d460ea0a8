"""Integration tests: demo."""
