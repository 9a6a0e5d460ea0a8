"""Copies of the ledger: its new rows in the shared database, in order and once; and backups, which can be restored."""
