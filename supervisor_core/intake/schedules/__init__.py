"""Schedules: added, listed, removed, and run with their owner's rights at that moment."""
