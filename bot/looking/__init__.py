"""What people look at: each command that only informs, from the question to its answer."""
