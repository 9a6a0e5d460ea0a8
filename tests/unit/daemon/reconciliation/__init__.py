"""Unit tests: daemon reconciliation."""
