"""What carries out a command: one module per kind, one signature for all."""
