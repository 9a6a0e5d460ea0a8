"""The Slack bot: turns what people type and click into commands, and shows the results."""
