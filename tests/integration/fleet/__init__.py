"""The fleet with real ledgers and a real NATS server."""
