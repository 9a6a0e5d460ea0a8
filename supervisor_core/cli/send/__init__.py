"""`supervisor send`: a command in the words that Slack uses, its answers and its waiting."""
