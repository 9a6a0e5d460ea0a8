"""Acceptance tests: features."""
