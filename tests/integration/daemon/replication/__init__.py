"""Integration tests: daemon replication."""
