"""The daemon: composition, services, reconciler, workers, the control door; and the single pass."""
