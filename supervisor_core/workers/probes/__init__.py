"""Probes: one question to a worker from outside, and the service that asks again and again."""
