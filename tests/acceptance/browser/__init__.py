"""Acceptance tests: browser."""
