"""Unit tests: bot views."""
