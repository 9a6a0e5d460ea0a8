"""Unit tests: fleet."""
