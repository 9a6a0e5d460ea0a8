"""Fault tests: kills in slack."""
