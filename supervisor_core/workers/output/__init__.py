"""Delivery of the workers' output to the drive, by the daemon and by passes."""
