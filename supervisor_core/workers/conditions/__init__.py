"""Conditions: what is wrong with a worker or a part of its host, and since when."""
