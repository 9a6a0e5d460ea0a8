"""Unit tests: workers restarts."""
