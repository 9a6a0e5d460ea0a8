"""The supervisor's log and the structured log: writing, reading back, excerpts and masking."""
