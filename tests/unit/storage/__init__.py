"""Unit tests: storage."""
