"""Daemons, single passes and reconcilers for tests."""
