"""Acceptance tests: slack."""
