"""Repositories, remotes, checkouts and virtual environments for tests of code changes."""
