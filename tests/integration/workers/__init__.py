"""Integration tests: workers."""
