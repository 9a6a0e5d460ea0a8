"""Unit tests: daemon."""
