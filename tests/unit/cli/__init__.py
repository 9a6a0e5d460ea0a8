"""Unit tests: cli."""
