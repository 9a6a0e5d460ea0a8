"""Databases, ledgers and damage for tests of the storage."""
