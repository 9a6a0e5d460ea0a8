"""Fault tests: kills."""
