"""Unit tests: diagnosis."""
