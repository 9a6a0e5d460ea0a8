"""Workers: observation, health, planning, restarts and pauses.

Rules are pure; the adapter is the one port to processes. Commands about workers belong to `jobs`.
"""
