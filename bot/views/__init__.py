"""What people see in Slack: Block Kit, one module per kind of message."""
