"""What Slack sends: heard on one connection, kept as a row, acknowledged, and only then acted upon."""
