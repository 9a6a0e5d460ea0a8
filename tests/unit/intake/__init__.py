"""Unit tests: intake."""
