"""The audit trail: its hash chain, search, pages and files."""
