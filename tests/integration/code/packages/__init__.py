"""Integration tests: code packages."""
