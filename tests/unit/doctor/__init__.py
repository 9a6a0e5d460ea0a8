"""Unit tests: doctor."""
