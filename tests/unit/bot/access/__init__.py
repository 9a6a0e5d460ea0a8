"""Unit tests: bot access."""
