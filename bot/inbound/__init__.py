"""Inbound: the connection to Slack, durable intake, and the router."""
