"""Unit tests: commands."""
