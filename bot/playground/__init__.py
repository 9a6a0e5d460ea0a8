"""A local Slack: Web API, Socket Mode, and a page in the browser."""
