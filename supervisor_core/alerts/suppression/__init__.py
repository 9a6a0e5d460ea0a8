"""Suppression: mute, snooze, maintenance windows and quiet hours."""
