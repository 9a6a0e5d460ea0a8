"""What runs: the pass, the daemon with its services and actors, ownership, the control socket."""
