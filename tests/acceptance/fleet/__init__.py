"""Whole fleets: real daemons, a real NATS server and a local Slack."""
