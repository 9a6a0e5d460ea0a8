"""Diagnosis: why a worker is as it is, its history, its logs, and reports. Nothing here changes anything."""
