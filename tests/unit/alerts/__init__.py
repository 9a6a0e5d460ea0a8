"""Unit tests: alerts."""
