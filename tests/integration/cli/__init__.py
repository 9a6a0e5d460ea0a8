"""Integration tests: cli."""
