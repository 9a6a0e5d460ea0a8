"""Teams and their members: rows in the ledger, and the manager that keeps them as the configuration says."""
