"""Ways to a host: local (a row), drive (a signed flag), fleet (NATS JetStream)."""
