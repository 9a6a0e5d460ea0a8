"""Backups of the ledger, which can be restored."""
