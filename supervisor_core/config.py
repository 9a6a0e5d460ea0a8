"""The configuration: read, checked, and explained where it is wrong."""
