"""Unit tests: common."""
