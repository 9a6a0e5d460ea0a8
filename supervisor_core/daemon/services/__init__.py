"""Services that the daemon runs beside reconciliation: the queue, the forwarder, retention, its own life."""
