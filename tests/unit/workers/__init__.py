"""Unit tests: workers."""
