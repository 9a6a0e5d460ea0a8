"""The supervisor's log and its structured twin: written, read back, searched for the lines that matter, and masked."""
