"""The audit trail: its hash chain, rows, search, pages, files, and the triggers that guard it."""
