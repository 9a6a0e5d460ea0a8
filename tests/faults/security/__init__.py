"""Attacks: each test does what an attacker, a slow remote or a curious operator would do."""
