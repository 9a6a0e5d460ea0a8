"""Stories as a user tells them, through the real programs."""
