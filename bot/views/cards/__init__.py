"""Cards: the message of a command, an approval, an alert, a digest, and their threads."""
