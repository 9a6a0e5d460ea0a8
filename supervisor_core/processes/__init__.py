"""The processes of workers: found, launched, adopted, stopped, and their exits heard at once.

Whether a worker should run is decided in `workers`.
"""
