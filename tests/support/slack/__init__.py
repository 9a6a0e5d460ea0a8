"""Homes, hosts, forms and buttons for tests against the local Slack."""
