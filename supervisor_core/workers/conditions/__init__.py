"""Conditions of workers and of parts of the host, with their beginnings."""
