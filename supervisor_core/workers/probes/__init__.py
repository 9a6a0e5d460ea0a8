"""Probes: one request to a worker from outside, and the service that repeats them."""
