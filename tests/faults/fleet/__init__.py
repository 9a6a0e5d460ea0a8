"""Faults of a whole fleet: lines, servers, hubs and hosts that fail while commands come from Slack."""
