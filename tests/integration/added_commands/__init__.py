"""Added commands, with real programs and functions."""
