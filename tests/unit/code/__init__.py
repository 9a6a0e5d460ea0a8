"""Unit tests: code."""
