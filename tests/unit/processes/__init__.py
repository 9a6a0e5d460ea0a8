"""Unit tests: processes."""
