"""Fault tests: forwarding."""
