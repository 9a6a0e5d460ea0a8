"""Unit tests: bot."""
