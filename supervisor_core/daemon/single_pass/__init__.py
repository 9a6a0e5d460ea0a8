"""The single pass for one worker, as a task scheduler runs it."""
