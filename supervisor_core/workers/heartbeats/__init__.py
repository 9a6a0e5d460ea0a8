"""Heartbeats: files on the drive, rows in the ledger, their ages, and the service that writes and watches them."""
