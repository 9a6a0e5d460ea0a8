"""Integration tests: jobs."""
