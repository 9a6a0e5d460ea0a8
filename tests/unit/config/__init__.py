"""Unit tests: config."""
