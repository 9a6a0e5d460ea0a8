"""Unit tests: host."""
