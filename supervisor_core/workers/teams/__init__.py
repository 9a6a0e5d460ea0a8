"""Teams and their members: rows in the ledger, and the manager that follows the configuration."""
