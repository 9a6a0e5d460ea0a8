"""Hosts, approvals and command queues for tests of the intake."""
