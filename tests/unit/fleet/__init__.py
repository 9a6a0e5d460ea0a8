"""The fleet, without a server."""
