"""Automatic restarts: the policy, its limits, and each worker's past runs."""
