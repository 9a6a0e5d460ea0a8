"""Replication: copies the ledger's new rows to the shared database, in order and idempotently."""
