"""Services that the daemon runs beside reconciliation: the queue, forwarding, retention, its own life."""
