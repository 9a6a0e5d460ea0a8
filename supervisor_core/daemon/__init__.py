"""The daemon: composition, services, reconciler, actors, the control door; and the single pass."""
