"""Workers: observed, judged healthy or not, planned for, restarted, paused.

Rules are pure; the adapter is the one port to processes. Commands about workers belong to `jobs`.
"""
