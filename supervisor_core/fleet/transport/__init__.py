"""The NATS server, its users and streams, and the connection to it. Knows nothing of commands or workers."""
